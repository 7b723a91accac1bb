"""How a column is read out of a binlog: by Debezium, which knows the model's words, and by what the server says of it.

A reading is a short text; two columns whose readings are equal give the same values. So many words are one reading (INT3,
MIDDLEINT, MEDIUMINT), and what changes no value is in none: a text's length, a number's display width, defaults, collations.
By `BinlogValueConverters` of Debezium 3.5.0 and 3.6.1, and by statements that were played (cdc_assets_tests/tables).
https://mariadb.com/kb/en/data-types/
"""

from __future__ import annotations

import re
from collections.abc import Collection

from cdc_assets.resources.databases.catalogue import CatalogueColumn
from cdc_assets.resources.table_models import ModelColumn

_INTEGERS = {
    **dict.fromkeys(("TINYINT", "INT1"), "tinyint"),
    **dict.fromkeys(("SMALLINT", "INT2"), "smallint"),
    **dict.fromkeys(("MEDIUMINT", "INT3", "MIDDLEINT"), "mediumint"),
    **dict.fromkeys(("INT", "INT4", "INTEGER"), "int"),
    **dict.fromkeys(("BIGINT", "INT8"), "bigint"),
}
_DECIMALS = ("DECIMAL", "DEC", "FIXED", "NUMERIC")
_DOUBLES = ("DOUBLE", "DOUBLE PRECISION", "FLOAT8")
# REAL is the server's double, unless its sql_mode has REAL_AS_FLOAT; Debezium's parser makes seven digits of it. FLOAT4 is none
# of these: its converter does not know the word, and sends NULL for each value.
_FLOATS = ("FLOAT", "REAL")
_FLOAT_BITS = 24
_BYTES = ("VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "LONG VARBINARY", "BINARY VARYING")
_TEXTS = re.compile(
    r"(NATIONAL )?(N?CHAR|CHARACTER|N?VARCHAR|VARCHARACTER|(N?CHAR|CHARACTER) (VARYING|VARCHAR))( BINARY)?"
    r"|(TINY|MEDIUM|LONG)?TEXT( BINARY)?|LONG( (VARCHAR|CHAR VARYING|CHARACTER VARYING|VARCHARACTER))?"
)
_WITH_DIGITS = ("TIME", "DATETIME", "TIMESTAMP")
_SAME_NAMES = {"GEOMCOLLECTION": "GEOMETRYCOLLECTION"}
_UTF8 = ("", "utf8", "utf8mb3", "utf8mb4")
"""One encoding for Java; it is also what Debezium takes where it knows of none."""
_CATALOGUE = re.compile(r"(?P<name>[a-z0-9]+)\s*(?:\((?P<args>.*)\))?(?P<flags>[a-z ]*)", re.DOTALL)
# A model has a label as it was written, and a server's text may stand in either quotes.
_LABEL = re.compile(r"""'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*\"""", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "Z": "\x1a"}


def reading_of_model(column: ModelColumn, signed: Collection[str] = ()) -> str:
    """What Debezium makes of its values; `signed`: words of integers that its connector takes for signed (kinds.Kind)."""
    words = [word for word in column.type.split() if word not in ("UNSIGNED", "ZEROFILL", "SIGNED")]
    name = " ".join(words)
    if name in _INTEGERS:
        unsigned = column.type != name and "UNSIGNED" in column.type and name not in signed
        return _INTEGERS[name] + (" unsigned" if unsigned else "")
    if name in ("ENUM", "SET"):
        return f"{name.lower()}({_labels(','.join(column.labels))})"
    if _TEXTS.fullmatch(name):
        return f"text {_charset(column.charset)}"
    return _by_name(name, column.length, column.scale)


def reading_of_catalogue(column: CatalogueColumn) -> str:
    """What the server writes."""
    shape = _CATALOGUE.match(column.type)
    if shape is None:
        return column.type
    name, args = shape["name"].upper(), shape["args"] or ""
    if name in _INTEGERS:
        return _INTEGERS[name] + (" unsigned" if "unsigned" in shape["flags"] or "zerofill" in shape["flags"] else "")
    if name in ("ENUM", "SET"):
        return f"{name.lower()}({_labels(args)})"
    if _TEXTS.fullmatch(name):
        return f"text {_charset(column.kind)}"
    sizes = [int(size) for size in args.split(",") if size.strip().isdigit()]
    return _by_name(name, sizes[0] if sizes else None, sizes[1] if len(sizes) > 1 else None)


def _by_name(name: str, length: int | None, scale: int | None) -> str:
    """The reading of a type that has no charset, sign or labels."""
    if name in _DECIMALS:
        return f"decimal({length or 10},{scale or 0})"
    if name in _DOUBLES:
        return "double"
    if name in _FLOATS:
        return "double" if name == "FLOAT" and scale is None and (length or 0) > _FLOAT_BITS else "float"
    if name in _BYTES:
        return "bytes"
    if name in ("BINARY", "BIT"):
        return f"{name.lower()}({length or 1})"
    if name in _WITH_DIGITS:
        return f"{name.lower()}({length or 0})"
    return _SAME_NAMES.get(name, name).lower()


def is_json_in_text(model: str, server: str) -> bool:
    """MariaDB's JSON is a longtext, and Debezium sends the text as it is."""
    return (model, server) == ("json", "text utf8")


def _charset(name: str) -> str:
    return "utf8" if name.lower() in _UTF8 else name.lower()


def _labels(text: str) -> str:
    """As one text whatever way they were quoted; their order is what the binlog's numbers mean."""
    return ",".join(repr(_label(quoted)) for quoted in _LABEL.findall(text))


def _label(quoted: str) -> str:
    mark = quoted[0]
    return re.sub(
        rf"{mark}{mark}|\\(.)", lambda found: _ESCAPES.get(found[1], found[1]) if found[1] else mark, quoted[1:-1], flags=re.S
    )
