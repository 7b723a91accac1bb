"""Columns of MySQL: what is declared of each, and values that it can hold."""

from __future__ import annotations

# MySQL's type: (as it is declared, values in SQL)
EXACT: dict[str, tuple[str, list[str]]] = {
    "tinyint": ("smallint", ["-128", "127"]),
    "tinyint unsigned": ("smallint", ["0", "255"]),
    "boolean": ("smallint", ["true", "2", "-1"]),
    "smallint unsigned": ("integer", ["65535"]),
    "mediumint": ("integer", ["-8388608"]),
    "int unsigned": ("bigint", ["4294967295"]),
    "bigint": ("bigint", ["-9223372036854775808", "9223372036854775807"]),
    "bigint unsigned": ("bigint unsigned", ["0", "9223372036854775808", "18446744073709551615"]),
    "decimal(30,10)": ("numeric(30,10)", ["-0.0000000001", "12345678901234567890.0123456789", "0"]),
    "decimal(38,0)": ("numeric(38)", ["-99999999999999999999999999999999999999"]),
    "double": ("double precision", ["0.1", "-0e0", "1.7976931348623157e308", "5e-324", "123456789.123456789"]),
    "year": ("year", ["1901", "2155"]),
    "bit(1)": ("boolean", ["b'1'", "b'0'"]),
    "bit(12)": ("bit(12)", ["b'101'", "b'0'", "b'100000000001'", "b'100000000'"]),
    "bit(64)": ("bit(64)", ["0xFFFFFFFFFFFFFFFF", "0x8000000000000000"]),
    "date": ("date", ["'1000-01-01'", "'9999-12-31'", "'2024-02-29'"]),
    "datetime": ("timestamp(0) without time zone", ["'1000-01-01 00:00:00'", "'2026-03-29 02:30:00'"]),
    "datetime(3)": ("timestamp(3) without time zone", ["'2026-01-02 03:04:05.678'", "'1969-12-31 23:59:59.999'"]),
    "datetime(6)": ("timestamp(6) without time zone", ["'9999-12-31 23:59:59.999999'", "'2026-10-25 02:30:00.1'"]),
    "timestamp": ("timestamp(0) with time zone", ["'1970-01-02 00:00:01'", "'2038-01-19 03:14:07'"]),
    "timestamp(6)": ("timestamp(6) with time zone", ["'2026-01-02 03:04:05.000001'", "'2026-03-29 02:30:00.5'"]),
    "time": ("time(0) without time zone", ["'23:59:59'", "'00:00:00'"]),
    "time(6)": ("time(6) without time zone", ["'12:34:56.000001'", "'00:00:00.1'"]),
    # A length of time, in microseconds.
    "time(3)": ("bigint", ["'-838:59:59'", "'838:59:59'", "'-00:00:00.001'", "'100:00:00.5'"]),
    "char(5)": ("character(5)", ["'ab'", "''", "'ab   '"]),
    "varchar(20)": ("character varying(20)", ["'😀 ü;'", "''", "'x '", r"'\\'", "'a\tb\nc'", "'%s'"]),
    "varchar(20) character set latin1": ("text", ["'é'", "'€'"]),
    "varchar(20) character set utf16": ("text", ["'é😀'"]),
    "longtext": ("text", ["REPEAT('ü', 70000)"]),
    "enum('a','b b','ü')": ("text", ["'b b'", "'ü'"]),
    "set('x','y','z')": ("text", ["'x,z'", "''"]),
    "binary(4)": ("bytea", ["X'00FF'", "X'00000000'", "X'01020304'"]),
    "varbinary(9)": ("bytea", ["X''", "X'FF00'", "X'0000'"]),
    "longblob": ("bytea", ["X'00'", "REPEAT(X'C3', 70000)"]),
}
