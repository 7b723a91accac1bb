"""What the check `schema` says where a table was folded by other rules than those of the registry: from ledgers alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from cdc_assets.chain.table_drift import column_reasons, rule_reasons, tracking_reasons
from cdc_assets.registry.table_declaration import SchemaChanges, Table
from spark.silver.column_ledger import ColumnLedger
from spark.silver.schema_evolution import compare_columns, first_ledger
from spark.specs import Column, SilverSpec

COLUMNS = (Column("id", "integer", False), Column("v", "text"), Column("note", "text"))
SPEC = SilverSpec("shop", "orders", "bronze", "silver", COLUMNS, ("id",))
ALL_OPS = ("r", "c", "u", "d", "t")


def declared(**more: Any) -> Table:
    return Table.model_validate({"name": "public.orders", **more})


def rules(ops: Collection[str] | None = ALL_OPS, ledger: ColumnLedger | None = None, **more: Any) -> list[str]:
    return [reason.text for reason in rule_reasons(declared(**more), ledger or first_ledger(SPEC), ops)]


def columns(ledger: ColumnLedger, policy: dict[str, str] | None = None, **more: Any) -> list[tuple[str, bool]]:
    found = column_reasons(declared(**more), SchemaChanges.model_validate(policy or {}), ledger)
    return [(reason.text, reason.as_new) for reason in found]


def ran(ledger: ColumnLedger, spec: SilverSpec) -> ColumnLedger:
    return compare_columns(ledger, spec, after="0001").next_ledger(after="0001")


def test_a_table_as_it_is_declared() -> None:
    assert rules() == []
    assert columns(first_ledger(SPEC)) == []


def test_rules_of_rows() -> None:
    soft = "deletes: soft is declared, and silver was folded by hard"
    assert rules(deletes="soft") == [soft]
    assert rules(None, deletes="soft") == [soft]
    assert rules(truncate="ignore") == ["truncate: ignore is declared, and silver was folded by apply"]
    assert rules(without_key="multiset") == ["rows told apart by: multiset is declared, and silver was folded by key"]
    assert rules(truncate="halt") == []
    # Nothing was deleted or truncated: by either rule the same rows are there.
    assert rules(("r", "c", "u"), deletes="soft", truncate="ignore") == []
    assert rules(ledger=replace(first_ledger(SPEC), made_by=()), deletes="soft") == []


@pytest.mark.parametrize(
    "more", [{"track_history_column_list": ["v"]}, {"track_history_except_column_list": ["note"]}], ids=lambda m: next(iter(m))
)
def test_tracked_columns(more: dict[str, Any]) -> None:
    def told(ledger: ColumnLedger) -> list[str]:
        return [reason.text for reason in tracking_reasons(declared(history="scd2", **more), ledger)]

    assert told(first_ledger(SPEC)) == ["tracked columns: (v) is declared, and the history was folded by (note, v)"]
    made = first_ledger(replace(SPEC, track_history=("v",)))
    assert told(made) == []
    # A column that comes at the source is no change of the rule.
    assert told(ran(made, replace(SPEC, columns=(*COLUMNS, Column("later", "text")), track_history=("v",)))) == []


def test_a_column_that_is_left_out_and_one_that_the_source_dropped() -> None:
    told = "except_column_list leaves out note, and silver still has what earlier rows held there"
    narrow = replace(SPEC, columns=COLUMNS[:2])
    assert columns(first_ledger(SPEC), except_column_list=["note"]) == [(told, True)]
    assert columns(ran(first_ledger(SPEC), replace(narrow, excluded=("note",))), except_column_list=["note"]) == [(told, True)]
    assert columns(ran(first_ledger(SPEC), narrow)) == []
    assert columns(first_ledger(replace(narrow, excluded=("note",))), except_column_list=["note"]) == []


def test_a_column_that_came_late() -> None:
    told = "note was left out by the registry for a time, and rows from then lack its values"
    narrow = replace(SPEC, columns=COLUMNS[:2], excluded=("note",))
    ledger = first_ledger(narrow)
    assert columns(ledger) == columns(ran(ledger, SPEC)) == [(told, False)]
    assert columns(ledger, {"add": "ignore"}) == []
    # A replay begins the table's ledger anew.
    assert columns(first_ledger(SPEC)) == []


def test_a_former_name() -> None:
    numbered = tuple(replace(c, number=i) for i, c in enumerate(COLUMNS, 1))
    born = first_ledger(replace(SPEC, columns=numbered))
    renamed = replace(SPEC, columns=(*numbered[:2], replace(numbered[2], name="remark")))
    kept = ran(born, replace(renamed, schema_changes={"rename": "ignore"}))
    assert columns(kept) == [("schema_changes.rename is evolve, and in silver remark is still note", True)]
    assert columns(kept, {"rename": "ignore"}) == []
    assert columns(ran(born, renamed)) == []
    # Spark cannot tell these two names apart, so by no policy is there a new column.
    assert columns(ran(born, replace(SPEC, columns=(*numbered[:2], replace(numbered[2], name="NOTE"))))) == []
