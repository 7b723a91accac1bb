"""Text in any character set, documents, labels, identifiers, addresses."""

from __future__ import annotations

from spark.types.rule import Rule, as_text

RULES = (
    Rule(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
        "string",
        "The same characters, whatever the column's character set. JSON is longtext in MariaDB: the document's own text.",
        as_text,
    ),
    Rule(("enum",), "string", "The label.", as_text),
    Rule(("set",), "string", "The labels, with commas between them, as MariaDB shows them.", as_text),
    Rule(("uuid",), "string", "Delta has no UUID; the canonical form sorts and compares the same.", as_text),
    Rule(
        ("inet4", "inet6"),
        "",
        "Debezium cannot parse the definition of a table that has such a column, and its connector stops: leaving the column out "
        "does not help, keep the address in a varchar",
    ),
)
