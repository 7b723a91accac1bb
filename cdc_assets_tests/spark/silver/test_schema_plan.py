"""What is to be done about a changed schema: each kind of change under each policy."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, get_args

import pytest

from cdc_assets.registry import table_declaration as declaration
from cdc_assets.registry.record_forms import ValueForms
from spark.errors import JobRefusedError, TableStopError
from spark.silver.column_ledger import ColumnLedger, Entry, diff
from spark.silver.schema_difference import CHOICES, SchemaChangePolicy, SchemaPlan, plan
from spark.specs import Column, SilverSpec
from spark.values.handling_modes import CHOICES as MODES
from spark.values.handling_modes import Modes

ID = Column("id", "integer", False, number=1)
V = Column("v", "text", number=2)
N = Column("n", "numeric(6,2)", number=3)
KNOWN = (ID, V, N)


def planned(columns: tuple[Column, ...], *, known: tuple[Column, ...] = KNOWN, **policy: str) -> SchemaPlan:
    spec = SilverSpec("s", "t", "bronze", "silver", columns, ("id",), schema_changes=policy)
    return plan(known, spec, after="0009")


def names(columns: list[Column]) -> list[str]:
    return [c.name for c in columns]


def test_nothing_changed() -> None:
    found = planned(KNOWN)
    assert tuple(found.columns) == KNOWN
    assert not found.changes


def test_add() -> None:
    new = Column("new", "integer", False, number=4, missing="5")
    found = planned((*KNOWN, new))
    assert found.added == [new]
    assert not found.changes[0].unfilled
    unknown = planned((*KNOWN, replace(new, missing=None)))
    assert unknown.changes[0].unfilled
    assert names(planned((*KNOWN, new), add="ignore").columns) == ["id", "v", "n"]


def test_drop_keeps_the_column_and_tells_once() -> None:
    found = planned((ID, N))
    assert sorted(names(found.columns)) == ["id", "n", "v"]
    assert [c.kind for c in found.changes] == ["drop"]
    again = planned((ID, N), known=tuple(found.columns))
    assert not again.changes
    assert again.columns == found.columns


def test_dropped_and_added_again_is_another_column() -> None:
    found = planned((ID, replace(V, number=7), N))
    assert names(found.emptied) == ["v"]
    dropped = planned((ID, N))
    back = planned((ID, replace(V, number=7), N), known=tuple(dropped.columns))
    assert names(back.emptied) == ["v"]
    assert not planned((ID, replace(V, number=7), N), known=tuple(back.columns)).changes


def test_what_older_rows_have_is_not_taken_from_a_column_that_is_gone() -> None:
    known = (ID, replace(V, missing="of the column before"), N)
    assert [c.missing for c in planned((ID, replace(V, number=7), N), known=known).emptied] == [None]
    rewritten = planned((ID, V, N), known=known).columns
    assert [c.missing for c in rewritten if c.name == "v"] == ["of the column before"]
    assert [c.missing for c in planned((ID, replace(V, missing=""), N)).columns if c.name == "v"] == [""]


def test_a_default_that_no_event_shows_is_told() -> None:
    for text in ("(1,2)", "((1,2),(3,4))"):
        (change,) = planned((*KNOWN, Column("new", "point", number=4, missing=text))).changes
        assert (change.unfilled, change.done) == (True, "NULL in rows from before")
    (change,) = planned((*KNOWN, Column("new", "text[]", number=4, missing='{"a,b",NULL}'))).changes
    assert (change.unfilled, change.done) == (False, "filled with the source's default")


@pytest.mark.parametrize("declared", [False, True])
def test_rename(declared: bool) -> None:
    renamed = replace(V, name="w", number=None if declared else 2)
    spec = SilverSpec("s", "t", "b", "p", (ID, renamed, N), ("id",), renamed={"v": "w"} if declared else {})
    found = plan(KNOWN, spec, after="")
    assert [(new.name, new.formerly, [old.name for old in olds]) for new, olds in found.renamed] == [("w", ("v",), ["v"])]
    assert sorted(names(found.columns)) == ["id", "n", "v", "w"]
    again = plan(found.columns, spec, after="")
    assert not again.changes
    assert sorted(again.columns, key=str) == sorted(found.columns, key=str)


def test_rename_ignored_keeps_the_name_in_the_lake() -> None:
    found = planned((ID, replace(V, name="w"), N), rename="ignore")
    assert [(c.name, c.event_field, c.formerly) for c in found.columns] == [("id", "id", ()), ("v", "w", ("v",)), ("n", "n", ())]
    assert not planned((ID, replace(V, name="w"), N), known=tuple(found.columns), rename="ignore").changes


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        ("integer", "bigint", "widen"),
        ("smallint", "integer", "widen"),
        ("numeric(6,2)", "numeric(8,3)", "widen"),
        ("numeric(6,2)", "numeric(6,3)", "change"),
        ("bigint", "integer", "change"),
        ("real", "double precision", "change"),
        ("text", "integer", "change"),
        ("date", "timestamp without time zone", "change"),
        ("character varying(5)", "text", None),
    ],
)
def test_types(was: str, now: str, kind: str | None) -> None:
    found = planned((ID, replace(V, source_type=now)), known=(ID, replace(V, source_type=was)))
    assert [c.kind for c in found.changes] == ([kind] if kind else [])
    kept = planned((ID, replace(V, source_type=now)), known=(ID, replace(V, source_type=was)), widen="ignore", change="ignore")
    assert [c.source_type for c in kept.columns] == ["integer", was if kind else now]


def test_a_side_column_per_type() -> None:
    one = planned((ID, replace(V, source_type="integer"), N))
    assert names(one.columns) == ["id", "v", "v__int", "n"]
    assert not planned((ID, replace(V, source_type="integer"), N), known=tuple(one.columns)).changes
    two = plan(one.columns, SilverSpec("s", "t", "b", "p", (ID, replace(V, source_type="boolean"), N), ("id",)), after="0011")
    assert sorted(names(two.columns)) == ["id", "n", "v", "v__boolean", "v__int"]
    with pytest.raises(TableStopError, match="key column 'id'"):
        planned((replace(ID, source_type="uuid"), V, N))


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("add", (*KNOWN, Column("x", "text", number=9))),
        ("drop", (ID, V)),
        ("rename", (ID, replace(V, name="w"), N)),
        ("widen", (ID, V, replace(N, source_type="numeric(9,2)"))),
        ("change", (ID, replace(V, source_type="uuid[]"), N)),
        ("nullability", (ID, replace(V, nullable=False), N)),
        ("reorder", (ID, N, V)),
    ],
)
def test_halt_names_the_change(kind: str, columns: tuple[Column, ...]) -> None:
    assert planned(columns).columns
    with pytest.raises(TableStopError, match=rf"schema_changes.{kind} is halt"):
        planned(columns, **{kind: "halt"})


def test_a_policy_is_checked() -> None:
    with pytest.raises(JobRefusedError, match="drop 'evolve' is none of lenient, halt"):
        SchemaChangePolicy.of({"drop": "evolve"})
    with pytest.raises(JobRefusedError, match=r"unknown kinds \['dorp'\]"):
        SchemaChangePolicy.of({"dorp": "halt"})
    assert all(getattr(SchemaChangePolicy(), kind) == choices[0] for kind, choices in CHOICES.items())


def test_the_registry_offers_the_same_choices() -> None:
    declared = declaration.SchemaChanges.model_fields
    assert {kind: get_args(field.annotation) for kind, field in declared.items()} == dict(CHOICES)
    assert declaration.SchemaChanges().model_dump() == asdict(SchemaChangePolicy())


def test_the_registry_offers_the_same_modes() -> None:
    declared = ValueForms.model_fields
    assert {name: get_args(field.annotation) for name, field in declared.items()} == dict(MODES)
    assert ValueForms().modes == ""
    assert Modes.parse(ValueForms(decimal="precise", hstore="map").modes) == Modes(decimal="precise", hstore="map")
    with pytest.raises(JobRefusedError, match="temporal=structured is not read"):
        Modes.parse("temporal=structured")
    with pytest.raises(TableStopError, match="modes were ours and are decimal=precise now"):
        planned((ID, replace(V, modes="decimal=precise"), N))


def test_the_ledger_survives_its_text() -> None:
    found = planned((ID, replace(V, name="w"), replace(N, source_type="numeric(9,2)")))
    ledger = ColumnLedger(KNOWN).grown(found.columns, found.changes, at="2026-01-01T00:00:00Z", after="0009")
    assert ColumnLedger.from_text(ledger.to_text()) == ledger
    assert diff(Entry(0, "", "", tuple(found.changes))) == [
        "~ w v -> w (rename: v is kept, and no longer filled)",
        "~ n numeric(6,2) -> numeric(9,2) (widen: rewritten)",
    ]


MOOD = Column("m", "mood", kind="enum", number=4, members=("10=ok", "11=bad"))


def label_changes(*members: str, **other: Any) -> list[tuple[str, str, str]]:
    found = planned((ID, replace(MOOD, members=members, **other)), known=(ID, MOOD))
    assert members in [c.members for c in found.columns]
    return [(c.kind, c.was, c.now) for c in found.changes]


def test_a_renamed_label_is_told_by_its_number() -> None:
    assert label_changes("10=ok", "12=so", "11=bad") == []
    assert label_changes("10=fine", "11=bad", "12=ok") == [("relabel", "ok", "fine")]
    assert label_changes("10=bad", "11=ok") == [("relabel", "ok", "bad"), ("relabel", "bad", "ok")]
    # The column is renamed by the same look.
    assert label_changes("10=a=b", "11=bad", name="mm") == [("rename", "m", "mm"), ("relabel", "ok", "a=b")]


def test_a_replaced_enum_is_told_with_the_labels_that_are_gone() -> None:
    assert label_changes("20=ok", "21=bad") == [("relabel", "", "")]
    assert label_changes("20=fine", "21=bad", source_type="mood2") == [("relabel", "ok", "")]


def test_what_is_not_known_is_no_change_of_a_type() -> None:
    """Of a table whose ledger is from before members were kept, and of another column of the name."""
    assert [c.kind for c in planned((ID, MOOD), known=(ID, replace(MOOD, members=()))).changes] == []
    assert [c.kind for c in planned((ID, replace(MOOD, members=("1=x",), number=5)), known=(ID, MOOD)).changes] == ["add"]
    assert [c.kind for c in planned((ID, replace(MOOD, members=("1=x",))), known=(ID, replace(MOOD, number=None))).changes] == []


def test_attributes_of_a_composite() -> None:
    pair = Column("p", "pair", kind="composite", number=4, members=("1=a", "2=b"))
    assert planned((ID, replace(pair, members=("1=a", "2=bb"))), known=(ID, pair)).changes == []
    (change,) = planned((ID, replace(pair, members=(*pair.members, "3=c"))), known=(ID, pair)).changes
    assert (change.kind, change.was, change.now) == ("attributes", "a, b", "a, b, c")


def test_members_stay_in_the_ledger() -> None:
    ledger = ColumnLedger((ID, MOOD))
    assert ColumnLedger.from_text(ledger.to_text()) == ledger
