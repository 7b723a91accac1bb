"""The rules that rows of a table were folded by: what its ledger keeps of them, and what differs from those of today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from spark.errors import TableStopError
from spark.silver.column_ledger import DROPPED, ColumnLedger, FoldRules, add_rules, diff, rule_changes
from spark.silver.schema_evolution import compare_columns, first_ledger
from spark.specs import Column, SilverSpec

ID, V, NOTE = Column("id", "integer", False), Column("v", "text"), Column("note", "text")
SPEC = SilverSpec("shop", "orders", "bronze", "silver", (ID, V, NOTE), ("id",))
TRACKABLE = ("v", "note")


def after(ledger: ColumnLedger, spec: SilverSpec) -> ColumnLedger:
    """The table's ledger behind a run by that spec."""
    found = compare_columns(ledger, spec, after="0001")
    assert found.is_settled == (found.next_ledger(after="0001") == ledger)
    return found.next_ledger(after="0001")


def changes(ledger: ColumnLedger, spec: SilverSpec) -> list[str]:
    return [change.text for change in rule_changes(ledger.made_by, FoldRules.of(spec), ledger.tracking())]


def test_a_table_knows_its_rules_from_birth_on() -> None:
    ledger = first_ledger(SPEC)
    assert ColumnLedger.from_text(ledger.to_text()) == ledger
    assert ledger.made_by == (FoldRules("hard", "apply", "key", ()),)
    assert changes(ledger, SPEC) == []
    assert compare_columns(ledger, SPEC, after="0001").is_settled
    # Told before any run, as the check does.
    assert changes(ledger, replace(SPEC, deletes="soft", truncate="ignore")) == [
        "deletes: hard -> soft",
        "truncate: apply -> ignore",
    ]


def test_rules_that_came_and_went_stay_known() -> None:
    soft = replace(SPEC, deletes="soft")
    ledger = after(after(first_ledger(SPEC), soft), SPEC)
    assert changes(ledger, SPEC) == ["deletes: hard and soft -> hard"]
    assert len(after(after(ledger, soft), SPEC).made_by) == 2
    assert ColumnLedger.from_text(ledger.to_text()) == ledger


def test_a_table_of_unknown_rules_tells_nothing() -> None:
    old = replace(first_ledger(SPEC), made_by=())
    soft = replace(SPEC, deletes="soft")
    assert "made_by" not in old.to_text()
    assert compare_columns(old, soft, after="0001").is_settled
    assert after(old, soft).made_by == ()
    assert changes(old, soft) == []


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ((), ("v",), ["tracked columns: (note, v) -> (v)"]),
        (("v",), (), ["tracked columns: (v) -> (note, v)"]),
        ((), ("v", "note"), []),
        (("v",), ("v", "later"), []),
        (("v", "later"), ("v",), []),
    ],
)
def test_tracked_columns(before: Sequence[str], now: Sequence[str], told: list[str]) -> None:
    """`later` came after the table's birth, or went: of older versions it says nothing."""
    made_by, declared = (FoldRules(track_history=tuple(before)),), FoldRules(track_history=tuple(now))
    assert [change.text for change in rule_changes(made_by, declared, TRACKABLE)] == told
    assert len(add_rules(made_by, declared, TRACKABLE)) == 1 + bool(told)


def test_a_column_that_came_later_is_not_compared() -> None:
    later = Column("later", "text")
    ledger = after(first_ledger(SPEC), replace(SPEC, columns=(*SPEC.columns, later)))
    assert ledger.tracking() == {"v", "note"}
    assert ledger.made_by == first_ledger(SPEC).made_by


def test_halt_has_folded_nothing_otherwise() -> None:
    halting = replace(SPEC, truncate="halt")
    assert changes(first_ledger(SPEC), halting) == []
    assert changes(first_ledger(halting), SPEC) == []
    assert changes(after(first_ledger(halting), SPEC), replace(SPEC, truncate="ignore")) == ["truncate: apply -> ignore"]


def test_what_tells_rows_apart() -> None:
    appended = replace(SPEC, keys=())
    assert changes(first_ledger(appended), SPEC) == ["rows told apart by: append -> key"]
    assert changes(first_ledger(appended), replace(appended, without_key="multiset")) == [
        "rows told apart by: append -> multiset"
    ]


def test_columns_that_are_ignored_are_known_when_they_come() -> None:
    narrow = replace(SPEC, columns=(ID, V), schema_changes={"add": "ignore"})
    ledger = after(first_ledger(narrow), replace(narrow, columns=SPEC.columns))
    assert (ledger.left_out, [c.name for c in ledger.columns]) == (("note",), ["id", "v"])
    came = after(ledger, SPEC)
    assert (came.left_out, [c.name for c in came.columns]) == (("note",), ["id", "v", "note"])
    assert ColumnLedger.from_text(came.to_text()) == came
    # One that the source has no more is none that a replay brings.
    assert after(ledger, narrow).left_out == ()


def test_a_column_that_the_registry_leaves_out_is_none_that_the_source_dropped() -> None:
    without = replace(SPEC, columns=(ID, V), excluded=("note",), schema_changes={"drop": "halt"})
    found = compare_columns(first_ledger(SPEC), without, after="0001").next_ledger(after="0001")
    what = "left out by except_column_list: kept, and no longer filled; cdc replay shop orders --as-new takes it away"
    assert diff(found.history[-1]) == [f"- note text (drop: {what})"]
    assert found.left_out == ("note",)
    # Events have the field still, and it is not read any more.
    assert [c.event_field for c in found.columns] == ["id", "v", DROPPED + "note"]
    assert after(found, without) == found
    assert first_ledger(without).left_out == ("note",)
    with pytest.raises(TableStopError, match=r"column 'note': drop \(text -> none\)"):
        compare_columns(first_ledger(SPEC), replace(without, excluded=()), after="0001")
