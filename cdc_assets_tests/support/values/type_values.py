"""The type torture table: values of each PostgreSQL type, sorted by what may become of them.

EXACT must arrive as the value that the database has. UNFIT must be reported, never turned into another value. LOST are
values that Debezium changes so that nobody can tell: their columns are refused unless a table accepts it; they are here
so that a Debezium that sends them exactly is noticed. REFUSED have no lake type at all.
"""

from __future__ import annotations

SETUP = (
    "CREATE EXTENSION IF NOT EXISTS hstore",
    "CREATE EXTENSION IF NOT EXISTS citext",
    "CREATE EXTENSION IF NOT EXISTS ltree",
    "CREATE EXTENSION IF NOT EXISTS isn SCHEMA public",
    """CREATE TYPE mood AS ENUM ('happy', 'so so', 'ünï "q"')""",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE DOMAIN price AS numeric(6,2)",
    "CREATE DOMAIN cheap AS price CHECK (VALUE < 10)",
    "CREATE DOMAIN feeling AS mood",
    "CREATE DOMAIN label AS citext",
    "CREATE TYPE floats AS RANGE (subtype = float8)",
)
OLD_DAYS = (
    "0001-01-01,0004-02-29,0100-02-28,0100-03-01,0189-10-11,0200-02-28,0200-03-01,1000-02-28,1500-02-28,1500-03-01,1582-10-04"
)
OLD = f'{OLD_DAYS},"1559-07-04 01:02:03.5","1582-10-04 23:59:59.999999"'
"""Around each day on which the Julian calendar falls back by one more, up to the last before the Gregorian."""
NINES = "repeat('9', 131072)::numeric"
TINY = "('0.' || repeat('0', 16382) || '1')::numeric"

SKIPPED = "2024-03-10 02:30:00,2024-11-03 01:30:00"
"""An hour that New York's clock leaves out, and one that it has twice: the worker's machine is there."""

EXACT: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "smallint": ("-32768", "32767"),
    "integer": ("-2147483648", "0"),
    "bigint": ("9223372036854775807", "-9223372036854775808"),
    "oid": ("4294967295",),
    "real": ("'NaN'", "'Infinity'", "3.4e38", "1.17549e-38", "0.1"),
    "double precision": ("'-Infinity'", "'NaN'", "5e-324", "0.1", "1.7976931348623157e308"),
    "numeric(10,2)": ("-0.01", "99999999.99"),
    "numeric(38,10)": ("1234567890123456789012345678.0123456789",),
    "numeric(40,10)": ("1.5", "'NaN'"),
    "numeric(5,-2)": ("12300", "-9999900"),
    "numeric(3,5)": ("0.00123",),
    "numeric": ("0.000", "'NaN'", "'Infinity'", "'-Infinity'", NINES, TINY, "1e-7", "123000", "1e20"),
    "money": ("'1234.56'", "'-92233720368547758.08'", "'1000.10'"),
    '"char"': ("'x'", "''"),
    "name": ("'abc'", "'ünï'"),
    "character(5)": ("'ab'",),
    "character varying(5)": ("'ab '",),
    "text": ("''", r"E'quo\"te\\ \n ☃'", "'null'"),
    "citext": ("'AbC'",),
    "bytea": (r"'\x00ff10'", "''"),
    "bit(1)": ("B'1'", "B'0'"),
    "bit(10)": ("B'0000000101'", "B'1000000000'", "B'0000000000'"),
    "bit(70)": ("repeat('10', 35)::bit(70)", "repeat('0', 69)::bit(70)"),
    "uuid": ("'7e0f4b7e-1c58-4fd1-8b0d-6b5f1f6e0b11'",),
    "json": (r"""E'{"a": 1.0, "a":2 ,"b":"\\u00e9"}'""", "'null'"),
    "jsonb": ("""'{"a": 12345678901234567890.10}'""", """'"x"'"""),
    "jsonpath": ("'$.a'",),
    "hstore": ("""'a=>1, b=>NULL, "c d"=>"x\\"y"'""", "''"),
    "ltree": ("'a.b.c'",),
    "lquery": ("'a.*'",),
    "tsvector": ("'fat:2,4A cat:3'",),
    "tsquery": ("'fat & rat'",),
    "inet": ("'192.168.0.1'", "'::1/64'", "'10.1.0.0/16'"),
    "cidr": ("'10.1.0.0/16'", "'2001:db8::/32'"),
    "macaddr": ("'08:00:2b:01:02:03'",),
    "macaddr8": ("'08:00:2b:01:02:03:04:05'",),
    "date": ("'2024-02-29'", "'0001-01-01'", "'9999-12-31'", "'1582-10-04'", "'1500-02-28'"),
    "timestamp without time zone": (
        "'2024-03-10 02:30:00.123456'",
        *("'2024-02-29 12:34:56.123456'", "'0001-01-01 00:00:00'", "'1582-10-10 01:00'"),
        "'9999-12-31 23:59:59.999999'",
    ),
    "timestamp(3) without time zone": ("'2024-02-29 12:34:56.123'", "'1500-02-28'"),
    "timestamp(0) without time zone": ("'2024-02-29 12:34:56'",),
    "timestamp with time zone": (
        *("'2024-02-29 12:34:56.123456+05'", "'0001-01-01 00:00:00+00'", "'1582-10-10 01:00+00'"),
        "'9999-12-31 23:59:59.999999+00'",
    ),
    "timestamp(3) with time zone": ("'2024-02-29 12:34:56.123+00'",),
    "time without time zone": ("'12:34:56.123456'", "'24:00:00'", "'00:00'"),
    "time(3) without time zone": ("'24:00'", "'01:02:03.004'"),
    "interval": (
        *("'1 year 2 mons 3 days 04:05:06.789'", "'-1 year 3 days -00:00:00.000001'", "'178000000 years'"),
        *("'1 mon -1 day'", "'100:00:00'"),
    ),
    "interval year to month": ("'1-2'",),
    "point": ("'(1.5,2)'", "'(Infinity,NaN)'", "'(0.1,1e300)'"),
    "line": ("'{1,2,3}'",),
    "lseg": ("'[(0,0),(1,1.5)]'",),
    "box": ("'(1,1),(0,0)'", "'(0.1,-7),(-3,-8.5)'"),
    "path": ("'[(0,0),(1,1)]'", "'((0,0),(1,1),(2,0.5))'"),
    "polygon": ("'((0,0),(1,0),(0,1))'",),
    "circle": ("'<(0,0.5),2.5>'",),
    "int4range": ("'[1,5)'",),
    "int8range": ("'(,5)'",),
    "numrange": ("'empty'", "'[1.50,2]'"),
    "tsrange": ("'[2024-01-01 00:00,infinity]'",),
    "tstzrange": ("'[2024-01-01 00:00+02,2024-02-01)'",),
    "daterange": ("'[2024-01-01,2024-02-01)'", "'[-infinity,)'"),
    "int4multirange": ("'{[1,3),[5,7)}'",),
    "nummultirange": ("'{}'",),
    "tstzmultirange": ("'{[2024-01-01 00:00+02,2024-02-01)}'",),
    "pg_lsn": ("'16/B374D848'",),
    "pg_snapshot": ("'10:20:10,14'",),
    "xid": ("'5'",),
    "xid8": ("'18446744073709551615'",),
    "tid": ("'(1,2)'",),
    "regclass": ("'pg_class'",),
    "regtype": ("'int4'",),
    "mood": ("'happy'", """'ünï "q"'"""),
    "positive": ("5",),
    "price": ("1.50",),
    "cheap": ("1.50",),
    "feeling": ("'so so'",),
    "label": ("'AbC'",),
    "pair": ("ROW(1, 'x')", "ROW(NULL, 'a,\"b')"),
    "floats": ("'[1.5,2)'",),
    "boolean[]": ("'{t,NULL,f}'", "'{}'"),
    "smallint[]": ("'{-32768,NULL}'",),
    "integer[]": ("'{1,NULL,3}'", "'{}'"),
    "bigint[]": ("'{9223372036854775807}'",),
    "oid[]": ("'{4294967295,NULL}'",),
    "real[]": ("'{NaN,1.5,NULL}'",),
    "double precision[]": ("'{NaN,-Infinity,0.1,NULL}'",),
    "text[]": ("""'{"NULL",NULL,"a,b",""}'""", "'{}'"),
    "character varying(5)[]": ("'{ab,NULL}'",),
    "character(5)[]": ("'{ab,NULL}'",),
    "citext[]": ("'{AbC,NULL}'",),
    "uuid[]": ("'{7e0f4b7e-1c58-4fd1-8b0d-6b5f1f6e0b11,NULL}'",),
    "json[]": ("""ARRAY['{"a": 1.0}', NULL, 'null']::json[]""",),
    "jsonb[]": ("""ARRAY['{"a": 1.0}', NULL]::jsonb[]""",),
    "bytea[]": (r"""'{"\\x00ff10",NULL,"\\x"}'""",),
    "timestamp without time zone[]": (
        """'{"2024-02-29 12:34:56.123456",NULL}'""",
        f"'{{{OLD},1582-10-25}}'",
        f"'{{{SKIPPED}}}'",
    ),
    "timestamp(3) without time zone[]": ("""'{"1559-07-04 01:02:03.5",0189-10-11,"2024-02-29 12:34:56.123"}'""",),
    "tsrange[]": (
        """ARRAY['[0189-10-11 00:00,1582-10-10 01:00)']::tsrange[]""",
        """ARRAY['[0044-03-15 BC,1559-07-04)']::tsrange[]""",
    ),
    "daterange[]": ("""ARRAY['[0044-03-15 BC,0189-10-11)', '[1582-10-10,)']::daterange[]""",),
    "hstore[]": ("""ARRAY['a=>1', NULL]::hstore[]""",),
    "inet[]": ("'{192.168.0.1,::1/64,NULL}'",),
    "cidr[]": ("'{10.1.0.0/16,NULL}'",),
    "macaddr8[]": ("'{08:00:2b:01:02:03:04:05,NULL}'",),
    "macaddr[]": ("'{08:00:2b:01:02:03,NULL}'",),
    "int4range[]": ("""'{"[1,5)",NULL}'""",),
    "int8range[]": ("""'{"[1,5)",NULL}'""",),
    "numrange[]": ("""'{"[1.50,5)",NULL}'""",),
    "tstzrange[]": (
        """ARRAY['[2024-01-01 00:00+02,)', NULL]::tstzrange[]""",
        """ARRAY['[0189-10-11 00:00+00,1559-07-04 01:02+00)']::tstzrange[]""",
    ),
}
UNFIT: dict[str, tuple[str, ...]] = {
    "numeric(10,2)": ("'NaN'",),
    "date": ("'infinity'", "'-infinity'", "'5874897-12-31'", "'10000-01-01'"),
    "timestamp without time zone": (
        *("'infinity'", "'-infinity'", "'0044-03-15 01:02:03.5 BC'", "'4713-01-01 BC'", "'10000-01-01 00:00:01'"),
        "'294276-12-31 23:59:59.999999'",
    ),
    "timestamp(3) without time zone": ("'infinity'",),
    "timestamp with time zone": (
        *("'infinity'", "'-infinity'", "'0044-03-15 01:02:03.5+00 BC'", "'10000-01-01 00:00:01+00'"),
        "'294276-12-31 23:59:59.999999+00'",
    ),
    "interval": ("'infinity'", "'-infinity'", "'0'"),
    "integer[]": ("'{{1,2},{3,NULL}}'", "'{{{1},{2}},{{3},{4}}}'", "'{NULL}'"),
    "boolean[]": ("'{{t},{f}}'",),
    "text[]": ("'{{a,b},{c,NULL}}'",),
    "uuid[]": ("'{{7e0f4b7e-1c58-4fd1-8b0d-6b5f1f6e0b11}}'",),
    "bytea[]": (r"""'{{"\\x00"}}'""",),
    "citext[]": ("'{{a}}'",),
    "inet[]": ("'{{10.0.0.1}}'",),
    "int4range[]": ("""'{{"[1,5)"}}'""",),
    "timestamp without time zone[]": (
        *("'{infinity}'", "'{-infinity}'", "'{{2024-01-01}}'", "'{10000-01-01}'", "'{0044-03-15 BC}'", "'{0001-12-31 BC}'"),
        *("'{1582-10-05}'", """'{"1582-10-14 23:59:59"}'""", "'{1582-10-15}'", """'{2024-01-01,"1582-10-24 23:00"}'"""),
    ),
}
ACCEPTED: dict[str, tuple[str, ...]] = {
    "date[]": (f"'{{{OLD_DAYS},1582-10-15,1582-10-24,2024-02-29,NULL}}'",),
    "timestamp with time zone[]": (f"'{{{OLD},1582-10-15,\"1582-10-24 23:00\",NULL}}'",),
    "time without time zone[]": ("'{12:34:56.123,00:00,NULL}'",),
}
"""Values that arrive exactly, of columns that must be accepted for others."""
LOST: dict[str, tuple[str, ...]] = {
    "time with time zone": ("'12:34:56.123456+05:30'", "'24:00:00-08'", "'12:00:00+01:02:03'"),
    "numeric(10,2)[]": ("'{NaN,1.5}'",),
    "date[]": ("'{0044-03-15 BC}'", "'{1582-10-10}'"),
    "timestamp with time zone[]": ("""'{"0044-03-15 00:00+00 BC"}'""", """'{"1582-10-10 00:00+00"}'"""),
    "time without time zone[]": ("'{12:34:56.123456}'", "'{24:00}'"),
    "ltree[]": ("'{a.b,NULL}'",),
    "tsvector[]": ("ARRAY['a', NULL]::tsvector[]",),
    "mood[]": ("'{happy,NULL}'",),
    "positive[]": ("'{5,NULL}'",),
    "pair[]": ("""ARRAY[ROW(1,'x')::pair, NULL]""",),
    "pg_lsn[]": ("'{1/1,NULL}'",),
    "isbn13[]": ("'{978-0-393-04002-9,NULL}'",),
    "floats[]": ("'{empty,NULL}'",),
    "int4multirange[]": ("""'{"{[1,3)}",NULL}'""",),
    "interval": ("'infinity'",),
}
REFUSED = (
    *("bit varying", "bit varying(12)", "int2vector", "oidvector", "money[]", "name[]", "interval[]", "bit varying[]"),
    *("point[]", "bit(3)[]", "box[]", "path[]", "circle[]", "xml[]"),
)

_BYTES = [
    *("floats", "int4multirange", "jsonpath", "lquery", "nummultirange", "pair", "pg_lsn", "pg_snapshot", "regclass", "regtype"),
    *("tid", "tsquery", "tstzmultirange", "xid", "xid8"),
]
# By number of the mode in test_types_live.MODES: types refused, and types of which some EXACT value is unfit or, accepted, NULL.
LIMITS: list[tuple[list[str], list[str]]] = [
    (["interval", "interval year to month", "numeric", "numeric(40,10)", "numeric(5,-2)"], []),
    (
        sorted([*_BYTES, "money", "name", "numeric", "numeric(38,10)", "numeric(40,10)"]),
        ["timestamp without time zone", "timestamp without time zone[]", "timestamp(3) without time zone"],
    ),
    ([], ["time without time zone", "time(3) without time zone"]),
    (["time without time zone", "timestamp without time zone", "timestamp without time zone[]"], []),
    ([], []),
]
