"""Types that users define. A domain is its base type (the catalogue query resolves it) and never comes here."""

from __future__ import annotations

from pyspark.sql import functions as sf

from spark.types.rule import LakeType, Rule

RULES = (Rule(("record",), "", "it has no exact lake type"),)

# An enum's label is text; a composite arrives as an object and is refused.
ANY_OTHER = LakeType("string", lambda text: sf.when(~text.startswith("{"), text))
