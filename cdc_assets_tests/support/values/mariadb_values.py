"""The type torture table of MariaDB: values of each type, sorted by what may become of them (as type_values for PostgreSQL)."""

from __future__ import annotations

# Without these, MariaDB refuses to write what it can hold.
LENIENT = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"

EXACT: dict[str, tuple[str, ...]] = {
    "tinyint(4)": ("-128", "127"),
    "tinyint(1)": ("0", "1", "7"),
    "tinyint(3) unsigned": ("255", "128"),
    "smallint(6)": ("-32768",),
    "smallint(5) unsigned": ("65535", "32768"),
    "mediumint(9)": ("-8388608", "8388607"),
    "mediumint(8) unsigned": ("16777215", "8388608"),
    "int(11)": ("-2147483648",),
    "int(10) unsigned": ("4294967295", "2147483648"),
    "int(10) unsigned zerofill": ("42",),
    "bigint(20)": ("-9223372036854775808", "9223372036854775807"),
    "bigint(20) unsigned": ("18446744073709551615", "9223372036854775808", "9223372036854775807", "0"),
    "bigint(20) unsigned zerofill": ("18446744073709551615", "7"),
    "decimal(10,2)": ("-0.01", "99999999.99"),
    "decimal(10,2) unsigned zerofill": ("1.50",),
    "decimal(38,10)": ("-1234567890123456789012345678.0123456789",),
    "decimal(65,30)": ("99999999999999999999999999999999999.999999999999999999999999999999", "-0.000000000000000000000000000001"),
    "decimal(65,0)": ("12345678901234567890123456789012345678901234567890123456789012345",),
    "double": ("0.1", "1.7976931348623157e308", "5e-324", "1e22", "123456789.123456789"),
    "double(10,2)": ("12345678.91",),
    "year(4)": ("1901", "2155", "2000"),
    "bit(1)": ("b'1'", "b'0'"),
    "bit(8)": ("b'00000001'", "b'10000000'", "b'0'"),
    "bit(64)": ("18446744073709551615", "1", "b'1000000000000000000000000000000000000000000000000000000000000000'"),
    "enum('a','it''s','ünï \"q\"')": ("'a'", "'it''s'", "3"),
    "set('red','it''s','ü')": ("''", "'red'", "'red,it''s,ü'"),
    "date": ("'0001-01-01'", "'1582-10-04'", "'1582-10-10'", "'1970-01-01'", "'9999-12-31'", "'0050-06-01'"),
    "time": ("'838:59:59'", "'-838:59:59'", "'00:00:00'", "'24:00:01'"),
    "time(6)": ("'838:59:59.000000'", "'-838:59:58.999999'", "'-00:00:00.000001'", "'12:34:56.789012'"),
    "time(3)": ("'-01:02:03.004'",),
    "datetime": ("'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'1970-01-01 00:00:00'"),
    "datetime(3)": ("'2024-02-29 12:34:56.789'",),
    "datetime(6)": ("'0050-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.999999'"),
    "timestamp": ("'1970-01-01 05:30:01'", "'2038-01-19 08:44:07'", "'2024-03-31 02:30:00'"),
    "timestamp(6)": ("'2024-10-27 02:30:00.123456'",),
    "char(10)": ("'ab  '", "''", "'ünï'"),
    "char(5) character set latin1": ("'ÿé'", "'€'"),
    "varchar(40)": ("'quo\"te\\\\ ''x'''", "'  blanks  '", "'日本語 🦆'", "'line\\nbreak'"),
    "varchar(40) character set latin2": ("'Příliš'",),
    "varchar(40) character set cp1251": ("'Привет'",),
    "varchar(40) character set sjis": ("'日本語'",),
    "varchar(40) character set gbk": ("'中文'",),
    "varchar(40) character set utf16": ("'日本 🦆'",),
    "varchar(40) character set ucs2": ("'日本'",),
    "varchar(40) character set utf32": ("'日本 🦆'",),
    "varchar(40) character set koi8r": ("'Привет'",),
    "varchar(40) character set utf8mb3": ("'日本'",),
    "tinytext": ("'x'",),
    "text character set latin1": ("'ÿ'",),
    "mediumtext": ("REPEAT('ü', 70000)",),
    "longtext": ("''",),
    "json": ('\'{"a": 1.10, "b":  [null,  "ü"]}\'', "'null'", "'123456789012345678901234567890.10'"),
    "binary(4)": ("x'00ff'", "x'00000000'", "x'01020304'", "x'2020'"),
    "varbinary(10)": ("x''", "x'00'", "x'ff00fe00'"),
    "tinyblob": ("x'00'",),
    "blob": ("x''", "x'80ff'"),
    "longblob": ("REPEAT(x'00ff', 40000)",),
    "uuid": ("'123e4567-e89b-12d3-a456-426655440001'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    "point": ("ST_GeomFromText('POINT(1.5 -2.25)', 4326)", "ST_GeomFromText('POINT(0 0)')"),
    "geometry": ("ST_GeomFromText('POINT(1 2)', 3857)", "ST_GeomFromText('LINESTRING(0 0, 0.1 1e300)')"),
    "polygon": ("ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')",),
    "geometrycollection": ("ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))')",),
}
# Of these, Debezium streams some shifted or as another moment: what converts must be right, and streamed none may.
UNFIT: dict[str, tuple[str, ...]] = {
    "uuid": ("'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000100'"),
    "timestamp": ("'0000-00-00 00:00:00'",),
}
# Refused by name; the values are here so that a Debezium that sends them exactly is noticed.
LOST: dict[str, tuple[str, ...]] = {"float": ("1.2345678",), "enum('a,b','x\\\\y')": ("1", "2")}
# Found before the connector starts: nobody can tell them from NULL, from 1970, or from another day.
ZEROS = (
    "CREATE TABLE types.zeros (id int PRIMARY KEY, a date, b date NOT NULL, c datetime, d timestamp NULL, e datetime)",
    "INSERT INTO types.zeros VALUES (1, '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '1582-10-10')",
    "INSERT INTO types.zeros VALUES (2, '2024-00-15', '2024-02-00', '0000-01-01', '0000-00-00', NULL)",
)
# Of other modes than ours, and per mode: what is refused, and of what some value is unfit.
MODES = [
    "decimal=precise,temporal=microseconds,binary=base64,unsigned=long",
    "decimal=double,temporal=isostring,binary=hex",
    "temporal=connect,binary=base64-url-safe",
    "temporal=nanoseconds",
]
_TIMES = ["time", "time(3)", "time(6)"]
_LONG = ["decimal(65,0)", "decimal(65,30)"]
LIMITS: list[tuple[list[str], list[str]]] = [
    ([*_LONG, *_TIMES], []),
    (["decimal(38,10)", *_LONG, *_TIMES], []),
    (["datetime(6)", *_TIMES], []),
    (_TIMES, ["datetime", "datetime(6)"]),
]
