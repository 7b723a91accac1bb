"""Text and what PostgreSQL writes as text: documents, identifiers, network addresses, search vectors."""

from __future__ import annotations

from spark.types.rule import Rule, as_text

RULES = (
    Rule(
        ("text", "character varying", "character", "bpchar", "citext", '"char"'),
        "string",
        "The same characters; blanks that `character(n)` pads with are kept.",
        as_text,
    ),
    Rule(("uuid",), "string", "Delta has no UUID; the canonical form sorts and compares the same.", as_text),
    Rule(("json", "jsonb"), "string", "The document's own text: numbers keep all their digits.", as_text),
    Rule(("hstore",), "string", "A JSON object of texts.", as_text),
    Rule(("xml", "tsvector", "tsquery", "ltree"), "string", "Their own text form.", as_text),
    Rule(("inet", "cidr", "macaddr", "macaddr8"), "string", "Their own text form.", as_text),
    Rule(("name",), "", "Debezium 3.7 sends NULL for it in streamed changes"),
    Rule(("pg_lsn", "pg_snapshot", "txid_snapshot"), "", "it has no exact lake type"),
)
