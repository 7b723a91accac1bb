"""The rule of each MariaDB type, from all families."""

from __future__ import annotations

from spark.types.mariadb import binary, numbers, spatial, temporal, text
from spark.types.rule import Rule

FAMILIES: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("Numbers", numbers.RULES),
    ("Text", text.RULES),
    ("Dates and times", temporal.RULES),
    ("Bytes and bits", binary.RULES),
    ("Spatial", spatial.RULES),
)
RULES = {name: rule for _, rules in FAMILIES for rule in rules for name in rule.types}
