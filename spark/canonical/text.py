"""Text, and what PostgreSQL writes as text."""

from __future__ import annotations

from spark.canonical.form import MEASURED, MEASURED_TEXT, PADDED, Form, Incomparable

_ZONED = Incomparable("its text depends on the time zone of the session that wrote it")
FORMS: dict[str, Form | Incomparable] = {
    **dict.fromkeys(("text", "character varying", "json", "jsonb", "uuid", "citext"), MEASURED_TEXT),
    "character": PADDED,
    "hstore": Incomparable("silver holds a JSON object, whose order of keys is Debezium's"),
    "tstzrange": _ZONED,
    "tstzmultirange": _ZONED,
}
# The output function's text: character(n), "char", name, inet, ranges, enums, search types and all others.
OTHER = MEASURED
