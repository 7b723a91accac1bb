"""What a table does about each kind of change of its source's schema.

    kind         choices (default first)          what they do
    add          evolve, ignore, halt             a new column | leave it out
    widen        rewrite, evolve, ignore, halt    the column gets the wider type by one rewrite of the table, which every
                                                  reader reads | by Delta's type widening, which delta-rs 1.6 does not
                                                  read | keep the narrow type: records beyond it are unfit
    change       evolve, ignore, halt             a side column for the new type (`v__int`) | keep the old type: records
                                                  that do not convert to it are unfit
    rename       evolve, ignore, halt             a column of the new name takes over the values | keep the old name
    drop         lenient, halt                    the column stays, and rows that change afterwards have NULL in it
    nullability  ignore, halt                     silver's columns all take NULL
    reorder      ignore, halt                     silver keeps its own order

`halt` stops the table with an error that names the change, until the policy or the source is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from spark.errors import SpecError
from spark.specs import SilverSpec

EVOLVE, LENIENT, IGNORE, HALT, REWRITE = "evolve", "lenient", "ignore", "halt", "rewrite"
CHOICES: Mapping[str, tuple[str, ...]] = {
    "add": (EVOLVE, IGNORE, HALT),
    "widen": (REWRITE, EVOLVE, IGNORE, HALT),
    "change": (EVOLVE, IGNORE, HALT),
    "rename": (EVOLVE, IGNORE, HALT),
    "drop": (LENIENT, HALT),
    "nullability": (IGNORE, HALT),
    "reorder": (IGNORE, HALT),
    "drop_table": (LENIENT, EVOLVE, IGNORE, HALT),
}


@dataclass(frozen=True)
class SchemaChangePolicy:
    """One choice per kind of change."""

    add: str = EVOLVE
    widen: str = REWRITE
    change: str = EVOLVE
    rename: str = EVOLVE
    drop: str = LENIENT
    nullability: str = IGNORE
    reorder: str = IGNORE
    drop_table: str = LENIENT

    def __post_init__(self) -> None:
        for kind, choice in asdict(self).items():
            if choice not in CHOICES[kind]:
                raise SpecError(f"schema_changes: {kind} {choice!r} is none of {', '.join(CHOICES[kind])}")

    @classmethod
    def of(cls, chosen: Mapping[str, str]) -> SchemaChangePolicy:
        """From the kinds that somebody chose."""
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(chosen) - set(known))
        if unknown:
            raise SpecError(f"schema_changes has unknown kinds {unknown}; known are {', '.join(known)}")
        return cls(**chosen)


def rebuild_command(spec: SilverSpec) -> str:
    """What makes a table anew from bronze, by today's rules."""
    return f"cdc replay {spec.source} {spec.table}"
