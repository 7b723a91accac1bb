"""What a table does about changes of its source's schema; what each choice means is in docs/explanation/schema-changes.md."""

from __future__ import annotations

from typing import Literal

from cdc_assets.registry.declared import Declared


class SchemaChanges(Declared):
    """One choice per kind of change. What each choice means: docs/explanation/schema-changes.md."""

    add: Literal["evolve", "ignore", "halt"] = "evolve"
    widen: Literal["rewrite", "evolve", "ignore", "halt"] = "rewrite"
    change: Literal["evolve", "ignore", "halt"] = "evolve"
    rename: Literal["evolve", "ignore", "halt"] = "evolve"
    drop: Literal["lenient", "halt"] = "lenient"
    nullability: Literal["ignore", "halt"] = "ignore"
    reorder: Literal["ignore", "halt"] = "ignore"
    drop_table: Literal["lenient", "evolve", "ignore", "halt"] = "lenient"
