"""What the worlds of MariaDB and of MySQL differ in: types and their values, keys, changes of a type, and words of SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_assets_tests.support.values import mariadb_values, mysql_values


@dataclass(frozen=True)
class BinlogFacts:
    """Of one kind. `keys`: of a type, SQL of its value number {n}; `twins`: SQL of a value equal to {c}, written otherwise."""

    kind: str
    values: Mapping[str, tuple[str, ...]]
    keys: Mapping[str, str]
    twins: Mapping[str, str]
    changes: Mapping[str, tuple[str, ...]]
    added: tuple[str, ...]
    whole: str
    """A whole number of four bytes, as its catalogue writes it."""
    lock_wait: int
    """Seconds; MySQL takes none below 1."""
    words: Mapping[str, str]
    """Types as a statement may write them, with a value."""
    misread: bool
    """Whether its world plays statements that Debezium misreads; MySQL's does not yet."""
    modes: Mapping[str, Mapping[str, str]]
    """Modes of a session that alters, and types that it has besides, with a value."""
    settings: tuple[str, ...]
    """What a session may set, and none of its changes may be lost by."""
    versions: bool
    """Whether a table may keep its rows' versions (WITH SYSTEM VERSIONING)."""
    statements: tuple[tuple[str, ...], ...]
    """What makes a session, or the server, write changes that are in no row event."""
    without: tuple[str, ...] = ()
    """What ends that, where it is not the session's."""


_MORE: dict[str, tuple[str, ...]] = {
    "varchar(40)": (
        "''",
        "'NULL'",
        "'%s ${x} \\\\u0000'",
        "' both '",
        "';'",
        "'0:'",
        "'a\\0b'",
        "'__debezium_unavailable_value'",
    ),
    "text": ("REPEAT('😀', 700)", "''", "'\\r\\n\\t'"),
    "double": ("-0e0",),
    "longtext": ("REPEAT('x', 70000)", "'\\\\'"),
}
_OF_MARIADB: dict[str, tuple[str, ...]] = {
    "decimal(38,38)": ("0.00000000000000000000000000000000000001", "-0.99999999999999999999999999999999999999"),
    # MySQL writes 2.225073858507201e-308 for it, which is another number.
    "double": ("2.2250738585072014e-308",),
    "time(6)": ("'-838:59:59.999999'", "'00:00:00.000001'"),
    "json": ("""'{"a": "\\\\u0000"}'""", "'[]'", "'  [1 ,2]'"),
    "set('red','it''s','ü')": ("'ü'",),
    "enum('a','it''s','ünï \"q\"')": ("'it''s'",),
    "varbinary(10)": ("x'5c27'",),
}
_WITHOUT = {"boolean", "time(3)"}
"""Of MySQL's values: its catalogue has no such type, and does not tell a length of time from a time of day."""
_CI = "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
BINARY = "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_TWINS = {_CI: "IF(LOCATE('k', CAST({c} AS BINARY)), UPPER({c}), LOWER({c}))", "double": "IF({c} = 0, -0e0, {c})"}
_KEYS: dict[str, str] = {
    "bigint": "-9223372036854775807 + {n}",
    "decimal(10,2)": "{n} - 30.5",
    "decimal(65,30)": "{n} / 8",
    "double": "({n} - 30) / 8e0",
    "date": "DATE '1582-10-20' + INTERVAL {n} DAY",
    "timestamp(6)": "TIMESTAMP '2024-10-27 02:30:00.123456' + INTERVAL {n} SECOND",
    "time(3)": "SEC_TO_TIME({n} * 1.5)",
    "varchar(20) CHARACTER SET latin2": "CONCAT('ž', {n})",
    _CI: "CONCAT('kß', {n})",
    BINARY: "CONCAT(';:\\'\\\\', {n})",
    "char(10)": "CONCAT('k', {n})",
    "varbinary(30)": "UNHEX(LEFT(SHA2({n}, 256), 32))",
    "binary(4)": "CHAR({n} USING binary)",
    "bit(8)": "{n}",
    "enum('a','b','c','d''e')": "1 + {n} % 4",
}
_WORDS = {
    "INTEGER": "-2147483648",
    "INT4 UNSIGNED": "4294967295",
    "MIDDLEINT UNSIGNED": "16777215",
    "INT1": "-128",
    "INT8 UNSIGNED": "18446744073709551615",
    "INT(5) ZEROFILL": "42",
    "DOUBLE PRECISION": "3.141592653589793",
    "FLOAT8": "2.718281828459045",
    "DEC(7,2)": "12345.67",
    "FIXED(9,3)": "-123456.789",
    "CHARACTER VARYING(20)": "'é€😀'",
    "NCHAR VARCHAR(9)": "'é€'",
    "NATIONAL CHARACTER(9)": "'ž'",
    "LONG VARCHAR": "REPEAT('ü', 300)",
    "VARCHAR(20) CHARACTER SET latin1": "'é€'",
    "LONG VARBINARY": "x'00ff'",
    "YEAR": "2155",
    "DATETIME(3)": "'2024-02-29 12:34:56.789'",
}
_MISREAD = {
    "INTEGER UNSIGNED": "4294967295",
    "INTEGER(10) UNSIGNED ZEROFILL": "3000000000",
    "REAL": "3.141592653589793",
    "BOOLEAN": "TRUE",
    "BOOL DEFAULT TRUE": "FALSE",
    "VARCHAR(20)": "'é€'",
    "VARCHAR(9) CHARACTER SET binary": "x'00ff'",
}
"""Of these, and of statements that a clause makes one of them, Debezium's model is not the server's."""
_MODES: dict[str, dict[str, str]] = {
    "ANSI_QUOTES": {},
    "NO_BACKSLASH_ESCAPES": {"VARCHAR(20) COMMENT 'ends in \\'": "'é€'"},
    "PIPES_AS_CONCAT,IGNORE_SPACE": {},
}
_SETTINGS = (
    *("foreign_key_checks = 0", "unique_checks = 0", "timestamp = 1000000000"),
    *("collation_connection = utf8mb4_bin", "lc_time_names = 'de_DE'", "sql_auto_is_null = 1", "group_concat_max_len = 4"),
    *(f"TRANSACTION ISOLATION LEVEL {level}" for level in ("READ UNCOMMITTED", "READ COMMITTED", "SERIALIZABLE")),
    *("sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')", "sql_mode = CONCAT(@@sql_mode, ',PAD_CHAR_TO_FULL_LENGTH')"),
)
_STATEMENTS = (("SET SESSION binlog_format = 'STATEMENT'",), ("SET SESSION binlog_format = 'MIXED'",))
MARIADB = BinlogFacts(
    "mariadb",
    {
        kind: (*mariadb_values.EXACT.get(kind, ()), *_MORE.get(kind, ()), *_OF_MARIADB.get(kind, ()))
        for kind in {**mariadb_values.EXACT, **_MORE, **_OF_MARIADB}
        # Half of its values begin with 00 once they are shifted (docs/reference/types.md).
        if kind != "uuid"
    },
    {
        **{f"{kind}(20)" if kind == "bigint" else kind: value for kind, value in _KEYS.items()},
        "int(11)": "{n}",
        "tinyint(3) unsigned": "{n}",
        "bigint(20) unsigned": "18446744073709551615 - {n}",
        "datetime(6)": "TIMESTAMP '0050-01-01 00:00:00.000001' + INTERVAL {n} SECOND",
        "year(4)": "1950 + {n}",
        "uuid": "CONCAT('123e4567-e89b-12d3-a456-4266554400', LPAD(HEX({n} + 1), 2, '0'))",
    },
    _TWINS,
    {
        "tinyint(4)": ("int(11)",),
        "smallint(6)": ("int(11)",),
        "int(11)": ("bigint(20)", "varchar(90)"),
        "decimal(10,2)": ("decimal(14,2)", "varchar(90)"),
        "varchar(40)": ("varchar(90)", "text"),
        "datetime(3)": ("datetime(6)",),
        "date": ("datetime(6)",),
        "year(4)": ("int(11)",),
    },
    ("int(11)", "varchar(40)", "date", "decimal(10,2)", "datetime(3)", "double", "json"),
    "int(11)",
    0,
    {**_WORDS, **_MISREAD},
    True,
    {
        **_MODES,
        # Its other names of types are in no grammar of Debezium's.
        "ORACLE": {"NUMBER(9,2)": "1234567.89", "VARCHAR2(20)": "'é€'", "CLOB": "'ž'", "RAW(9)": "x'00ff'"},
    },
    (
        *_SETTINGS,
        *("gtid_domain_id = 7", "binlog_annotate_row_events = OFF", "check_constraint_checks = 0"),
        "system_versioning_alter_history = KEEP",
    ),
    True,
    (*_STATEMENTS, ("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")),
    ("SET GLOBAL log_bin_compress = OFF",),
)
MYSQL = BinlogFacts(
    "mysql",
    {
        **{kind: (*values, *_MORE.get(kind, ())) for kind, (_, values) in mysql_values.EXACT.items() if kind not in _WITHOUT},
        **{kind: values for kind, values in _MORE.items() if kind not in mysql_values.EXACT},
        "int": ("-2147483648",),
        "decimal(10,2)": ("-0.01", "99999999.99"),
        "tinyint(1)": ("0", "1", "7"),
    },
    {
        **_KEYS,
        "int": "{n}",
        "tinyint unsigned": "{n}",
        "bigint unsigned": "18446744073709551615 - {n}",
        "datetime(6)": "TIMESTAMP '1050-01-01 00:00:00.000001' + INTERVAL {n} SECOND",
        "year": "1950 + {n}",
    },
    _TWINS,
    {
        "tinyint": ("int",),
        "int": ("bigint", "varchar(90)"),
        "decimal(10,2)": ("decimal(14,2)", "varchar(90)"),
        "varchar(40)": ("varchar(90)", "text"),
        "datetime(3)": ("datetime(6)",),
        "date": ("datetime(6)",),
        "year": ("int",),
    },
    ("int", "varchar(40)", "date", "decimal(10,2)", "datetime(3)", "double"),
    "int",
    1,
    _WORDS,
    False,
    {},
    (),
    False,
    (*_STATEMENTS, ("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",)),
)
CHANGED = {
    "bigint": ("5000000000",),
    "decimal(14,2)": ("123456789012.34",),
    "varchar(90)": ("'changed'",),
    "datetime(6)": ("'2024-02-29 01:02:03.000004'",),
}
"""Values of types that a change gives, where there is none of the type itself."""
