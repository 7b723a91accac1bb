"""Text in any character set, documents, labels, identifiers, addresses."""

from __future__ import annotations

from pyspark.sql import functions as sf

from spark.types.mariadb.columns import ODD_LABELS
from spark.types.rule import LakeType, Rule, as_text

RULES = (
    Rule(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
        "string",
        "The same characters, whatever the column's character set. JSON is longtext in MariaDB: the document's own text.",
        as_text,
    ),
    Rule(("enum",), "string", "The label.", as_text),
    Rule(("set",), "string", "The labels, with commas between them, as MariaDB shows them.", as_text),
    Rule(
        ("uuid",),
        "string",
        "The canonical form. Streamed, one that ends in 00 is sent shifted, with 00 in front: records whose value begins with 00 "
        "are unfit, unless the table's `accept_inexact` names the column.",
        lambda source: (
            as_text(source)
            if source.accepted
            else LakeType("string", lambda text: sf.when(~text.startswith("00"), text), form="uuid but 00")
        ),
    ),
    Rule(
        (ODD_LABELS,),
        "",
        "Debezium streams such a label with backslashes that it does not have; name labels without commas and backslashes",
    ),
    Rule(
        ("inet4", "inet6"),
        "",
        "Debezium cannot parse the definition of a table that has such a column, and its connector stops: leaving the column out "
        "does not help, keep the address in a varchar",
    ),
)
