"""Text and what PostgreSQL writes as text: documents, identifiers, network addresses, search, system types."""

from __future__ import annotations

from spark.types.rule import LakeType, Refused, Rule, SourceType, as_text, bytes_as_text, long_bytes_as_text


def _name(source: SourceType) -> LakeType:
    if source.modes.unknown == "omit":
        raise Refused("without include.unknown.datatypes=true Debezium streams NULL for it")
    return as_text(source)


RULES = (
    Rule(
        ("text", "character varying", "character", "bpchar", '"char"'),
        "string",
        "The same characters; blanks that `character(n)` pads with are kept.",
        as_text,
    ),
    Rule(("name",), "string", "The same characters.", _name),
    Rule(("citext",), "string", "The same characters; the comparison in the lake minds case.", as_text, extension=True),
    Rule(("uuid",), "string", "Delta has no UUID; the canonical form sorts and compares the same.", as_text),
    Rule(("json", "jsonb"), "string", "The document's own text: numbers keep all their digits.", as_text),
    Rule(("hstore",), "string", "A JSON object of texts and nulls.", as_text, extension=True),
    Rule(
        ("isbn",), "string", "PostgreSQL's text. Other types of `isn` come as bytes, like any base type.", as_text, extension=True
    ),
    Rule(("ltree",), "string", "Its own text form.", as_text, extension=True),
    Rule(("tsvector",), "string", "Its own text form.", as_text),
    Rule(("xml",), "string", "Its own text (not measured: the embedded PostgreSQL has no libxml).", as_text),
    Rule(("inet", "cidr", "macaddr", "macaddr8"), "string", "Their own text form.", as_text),
    Rule(
        (
            *("tsquery", "pg_lsn", "xid", "xid8", "cid", "tid", "regclass", "regcollation", "regconfig", "regdictionary"),
            *("regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype"),
        ),
        "string",
        "PostgreSQL's text; Debezium sends its bytes (include.unknown.datatypes).",
        bytes_as_text,
    ),
    Rule(
        ("jsonpath", "pg_snapshot", "txid_snapshot"),
        "string",
        "PostgreSQL's text; Debezium sends its bytes (include.unknown.datatypes).",
        long_bytes_as_text,
    ),
    Rule(("lquery", "ltxtquery"), "string", "PostgreSQL's text, sent as bytes.", long_bytes_as_text, extension=True),
    Rule(("int2vector", "oidvector"), "", "Debezium sends an empty array for it"),
)
