"""PostgreSQL's types with values that must arrive exactly, as SQL: those of the type table's test, and more."""

from __future__ import annotations

from cdc_assets_tests.support.values.type_values import ACCEPTED, EXACT

SETUP = (
    "CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public",
    "CREATE EXTENSION IF NOT EXISTS citext SCHEMA public",
    "CREATE EXTENSION IF NOT EXISTS ltree SCHEMA public",
    "CREATE EXTENSION IF NOT EXISTS isn SCHEMA public",
)
# In the world's own schema, so that the catalogue names them with their schema's hostile name.
TYPES = (
    """CREATE TYPE mood AS ENUM ('happy', 'so so', 'ünï "q"', '', 'a,b', 'it''s', 'NULL')""",
    "CREATE TYPE pair AS (a int, b text)",
    'CREATE TYPE "Odd,;pair" AS ("x y" timestamptz, "c" numeric, d pair, e text[])',
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE DOMAIN price AS numeric(6,2)",
    "CREATE DOMAIN cheap AS price CHECK (VALUE < 10)",
    "CREATE DOMAIN feeling AS mood",
    "CREATE DOMAIN label AS citext",
    "CREATE DOMAIN tags AS text[]",
    "CREATE DOMAIN paired AS pair",
    "CREATE TYPE floats AS RANGE (subtype = float8)",
    "CREATE TYPE texts AS RANGE (subtype = text)",
)
# Too large to stay in its row, and not to be compressed: an UPDATE that leaves it alone does not send it.
_LARGE = "(SELECT string_agg(md5(i::text), '') FROM generate_series({n}, {n} + 400) i)"
_MORE: dict[str, tuple[str, ...]] = {
    "text": (
        *(r"'\u0000'", "'NULL'", "'%s {} ${x}'", "' both '", "E'\\r\\n\\t'", "E'\\x01\\x7f'", "'a;b:c'", "';'", "'0:'"),
        *("'__debezium_unavailable_value'", "repeat('😀', 700)", _LARGE.format(n=1)),
    ),
    "real": ("'-0'", "1e-45", "-3.4028235e38"),
    "double precision": ("'-0'", "2.2250738585072014e-308", "1e22", "123456789012345680"),
    "numeric": ("-0.0000000000000000000000000000000000000001", "1e-16383", "1.10"),
    "numeric(38,38)": ("0.00000000000000000000000000000000000001", "-0.99999999999999999999999999999999999999"),
    "numeric(1,0)": ("-9", "0"),
    "json": (r"""'{"a": "\u0000", "\u00e9": "\ud83d\ude00"}'""", "'  [ 1 ,2]  '"),
    "jsonb": (
        *(r"""'"\\u0000"'""", "'null'", "'[]'", "'1.10'", "'-0.0'", """'{"": {"a": [null, true, 1e400]}}'"""),
        f"jsonb_build_object('k', {_LARGE.format(n=3)})",
    ),
    "bytea": (f"decode({_LARGE.format(n=5)}, 'hex')", "'NULL'::bytea"),
    "character(5)": ("''", "'  a'", "'ünï'", "'12345'"),
    "character varying(5)": ("''", "'     '", "'😀😀😀😀😀'"),
    "citext": ("'ß'", "''", "'  '"),
    "date": ("'1582-10-15'", "'0004-02-29'"),
    "timestamp without time zone": ("'1969-12-31 23:59:59.999999'", "'1582-10-04 23:59:59.999999'"),
    "timestamp with time zone": ("'1900-01-01 00:00:00+00:19:32'", "'0001-01-01 00:00:00.000001+00'"),
    "timestamp(6) with time zone": ("'1559-07-04 01:02:03.5+00'",),
    "interval": ("'1 mon -30 days'", "'-178000000 years'", "'0.000001 s'", "'30 days'", "'24:00'"),
    "hstore": ("""'a=>"", ""=>b, "NULL"=>NULL, "x,y"=>"=>"'""", f"hstore('k', {_LARGE.format(n=7)})"),
    "pair": ("ROW(NULL, NULL)::pair", "ROW(NULL, '')::pair", f"ROW(1, {_LARGE.format(n=9)})::pair"),
    '"Odd,;pair"': (
        """ROW('2020-01-01 00:00:00.5+02', 1.10, ROW(NULL, '(",)')::pair, ARRAY['a,b', NULL])::"Odd,;pair" """,
        """ROW(NULL, NULL, NULL, NULL)::"Odd,;pair" """,
        """ROW('infinity', 'NaN', ROW(NULL, NULL)::pair, '{}')::"Odd,;pair" """,
    ),
    "paired": ("ROW(NULL, 'x')::pair",),
    "texts": ("""texts('a,b', 'c"d')""", "texts(NULL, '')", "texts('(', ')', '()')", "'empty'"),
    "mood": ("''", "'a,b'", "'NULL'", "'it''s'"),
    "numrange": ("'[1.0,2.00)'", "'(,)'", "'[-Infinity,NaN)'"),
    "tstzrange": ("'[-infinity,infinity]'", "'[0044-03-15 BC,1582-10-10)'"),
    "int8multirange": ("'{[-9223372036854775808,5),[7,)}'",),
    "datemultirange": ("'{[0044-03-15 BC,1582-10-10)}'",),
    "tsmultirange": ("'{(,0044-03-15 BC),[2024-01-01,infinity]}'",),
    "text[]": (r"""ARRAY['\', '"', '{}', ',', ' ', 'null', 'ü', '\u0000']""", f"ARRAY[{_LARGE.format(n=11)}, '']"),
    "bytea[]": (r"ARRAY['\x'::bytea, '\x5c22']",),
    "jsonb[]": (r"""ARRAY['{"a\"": "\\"}', '"x,y"', 'null']::jsonb[]""",),
    "hstore[]": ("""ARRAY['"a\\"b"=>"c,d", e=>NULL', '']::hstore[]""",),
    "tags": ("ARRAY['a', NULL]", "'{}'"),
    "line": ("'{0,-1,0.1}'",),
    "isbn13": ("'978-0-393-04002-9'",),
    "inet": ("'255.255.255.255/0'", "'::ffff:1.2.3.4'", "'fe80::1/64'"),
    "xid8": ("'0'",),
    "bit(3)": ("B'010'", "B'000'"),
    "tsvector": ("''", """'''a b'':1A,2B ''x''''y'''"""),
    '"char"': ("' '", "'\"'"),
    "time without time zone": ("'23:59:59.999999'", "'00:00:00.000001'"),
    "regtype": ("'int[]'",),
}
VALUES: dict[str, tuple[str, ...]] = {
    kind: tuple(dict.fromkeys((*EXACT.get(kind, ()), *_MORE.get(kind, ())))) for kind in {**EXACT, **_MORE}
}
"""Type to SQL expressions of values."""
ACCEPTING = {kind: values for kind, values in ACCEPTED.items() if kind not in VALUES}
"""Of columns that a table must accept for the sake of other values."""
KEYS: dict[str, str] = {
    "smallint": "{n}",
    "integer": "{n}",
    "bigint": "-9223372036854775807 + {n}",
    "oid": "4294967295 - {n}",
    "real": "({n} - 30) / 7.0",
    "double precision": "({n} - 30) / 7.0",
    "numeric": "{n} / 8.0",
    "numeric(10,2)": "{n} - 30.5",
    "numeric(38,10)": "1234567890123456789012345678.0123456789 - {n}",
    "money": "{n}::money",
    '"char"': "chr(64 + {n} % 63)",
    "name": "'k{n}'",
    "character(5)": "'{n}'",
    "character varying(5)": "'{n} '",
    "text": "';:{n}''\"\\'",
    "citext": "'kß{n}'",
    "label": "'k{n}'",
    "bytea": "decode(repeat(md5('{n}'), 1 + {n} % 3), 'hex')",
    "bit(10)": "{n}::bit(10)",
    "uuid": "md5('{n}')::uuid",
    "jsonb": """'{{"a": {n}.0}}'""",
    "hstore": "hstore('k', '{n}')",
    "ltree": "'a.b{n}'",
    "inet": "'10.0.0.0/8'::inet + {n}",
    "macaddr": "('08:00:2b:01:02:' || lpad(to_hex({n} % 256), 2, '0'))::macaddr",
    "date": "date '0001-01-01' + {n}",
    "timestamp without time zone": "timestamp '1582-10-04 23:59:59.999999' - {n} * interval '1.000001 s'",
    "timestamp(3) with time zone": "timestamptz '1969-12-31 23:59:59.999+00' + {n} * interval '1 ms'",
    "timestamp with time zone": "timestamptz '9999-12-31 23:59:59.999999+00' - {n} * interval '1.000001 s'",
    "time without time zone": "time '23:59:59.999999' - {n} * interval '1 us'",
    "interval": "{n} * interval '1 mon'",
    "positive": "{n} + 1",
    "price": "{n} / 4.0",
    "pair": "ROW(NULL, 'x{n}')::pair",
    "integer[]": "ARRAY[{n}, NULL, 0]",
    "text[]": "ARRAY['a,\"b', NULL, '{n}']",
    "double precision[]": "ARRAY['-0', {n} / 7.0]::float8[]",
    "int4range": "int4range({n}, NULL)",
    "numrange": "numrange({n} / 8.0, NULL)",
    "texts": "texts('{n}', NULL)",
    "int4multirange": "int4multirange(int4range({n}, {n} + 1))",
    "pg_lsn": "'0/0'::pg_lsn + {n}",
    "xid8": "'{n}'::xid8",
    "tsvector": "'fat{n}'",
    "timestamp without time zone[]": "ARRAY[timestamp '1500-02-28 00:00' - {n} * interval '1 s']",
}
"""Types that can be a key, with an expression of its value number n."""
TWINS = {
    "citext": "upper({c}::text)::citext",
    "label": "upper({c}::text)::citext",
    "numeric": "{c} * 1.000",
    "numrange": "numrange(lower({c}) * 1.000, NULL)",
    "interval": "{c} + interval '1 mon' - interval '30 days'",
    "jsonb": "replace({c}::text, '.0', '.000')::jsonb",
    "double precision": "CASE WHEN {c} = 0 THEN '-0' ELSE {c} END",
    "real": "CASE WHEN {c} = 0 THEN '-0' ELSE {c} END",
    "integer[]": "{c} || '{{}}'::int[]",
}
"""Values that PostgreSQL calls equal, written otherwise."""
