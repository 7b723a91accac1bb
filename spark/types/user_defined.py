"""Types that users and extensions define; the catalogue says of which kind one is.

A domain is its base type (the catalogue query resolves it) and only comes here as an array's element.
"""

from __future__ import annotations

from spark.types.rule import Rule, as_text, bytes_as_text, long_bytes_as_text

_TEXT = "PostgreSQL's text; Debezium sends its bytes (include.unknown.datatypes)."
BY_KIND = {
    "enum": Rule(("any enum",), "string", "The label.", as_text),
    "composite": Rule(("any composite",), "string", f"{_TEXT} `(1,x)`", long_bytes_as_text),
    "range": Rule(("any other range",), "string", _TEXT, long_bytes_as_text),
    "multirange": Rule(("any other multirange",), "string", _TEXT, long_bytes_as_text),
    "base": Rule(("any other base type",), "string", _TEXT, long_bytes_as_text),
    # PostgreSQL never stores one out of line, so its NULL is a NULL: https://www.postgresql.org/docs/18/storage-toast.html
    "fixed": Rule(("any other base type of fixed length",), "string", f"{_TEXT} `isbn13`, `seg`", bytes_as_text),
    "domain": Rule(("any domain",), "as its base type", "A domain only adds constraints.", long_bytes_as_text),
}
RULES = tuple(BY_KIND.values())
