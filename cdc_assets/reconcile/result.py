"""What a comparison found: one verdict per table, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from cdc_assets import names
from cdc_assets.quantity import quantity
from cdc_assets.reconcile.history_result import HistoryResult
from cdc_assets.reconcile.verdict import NOT_COMPARED, ComparisonResult
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.hidden_values import HiddenValues

Row = Mapping[str, str | None]
IN_SILVER, IN_QUARANTINE, BEFORE_SILVER = "silver", "quarantine", "bronze or before it"


def place_of_damage(*, in_bronze: bool, set_aside: bool) -> str:
    """Where the damage is: bronze folded anew has the source's row, or the key's newest event is in quarantine, or neither."""
    return IN_SILVER if in_bronze else IN_QUARANTINE if set_aside else BEFORE_SILVER


@dataclass(frozen=True)
class RowDifference:
    """One key: the row in the source and in silver (None: no row), as canonical texts.

    `kind` is `missing` (not in silver), `phantom` (not in the source) or `differs`; `where` says which part of the lake
    is damaged: silver, when bronze folded anew gives the source's row; quarantine, when the key's newest event is there; else
    bronze or what comes before it.
    """

    key: str
    kind: str
    source: Row | None
    silver: Row | None
    where: str
    copies: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values differ."""
        if self.source is None or self.silver is None:
            return ()
        return tuple(name for name, text in self.source.items() if text != self.silver.get(name))


@dataclass(frozen=True, kw_only=True)
class TableResult(ComparisonResult):
    """One table at one cut. Seconds by phase: source, carry, lake, drill; `lsn`: the place in the log, or of topics, for people.

    `looked_up` are the keys of silver that were asked for at the source, beside the rows compared (two ranges, ADR 48).
    `history` is what the proof of the table's history found, where it has one (cdc reconcile).
    `method` is `two-step` where the source tells no exact moment: `suspects` were read again, `in_flight` are those that are
    neither cleared nor confirmed.
    `counted` are the source's rows by a statement of its own, and `set_aside` the records in quarantine that leave rows in doubt.
    `causes` are what became of a type of a column that differs (cdc_assets.tables.old_members).
    Whichever way the rows were compared, no table is called equal against these figures (doubts_of_equality).
    """

    snapshot: str = ""
    lsn: str = ""
    source_rows: int | None = None
    silver_rows: int | None = None
    counted: int | None = None
    set_aside: int = 0
    looked_up: int | None = None
    buckets: int = 0
    buckets_differing: int = 0
    differences: tuple[RowDifference, ...] = ()
    method: str = "cut"
    suspects: int = 0
    in_flight: int = 0
    history: HistoryResult | None = None
    causes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.equal and (doubts := doubts_of_equality(self)):
            object.__setattr__(self, "verdict", NOT_COMPARED)
            object.__setattr__(self, "reason", f"no row was found to differ, but {'; '.join(doubts)}")

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one table's comparison."""
        data = asdict(self)
        for told, difference in zip(data["differences"], self.differences, strict=True):
            told["columns"] = list(difference.columns)
        if self.history is None:
            del data["history"]
        return data

    def sentence(self) -> str:
        """For people, in one line."""
        if self.verdict == NOT_COMPARED:
            before = f"a part that differed before (share {self.share}) " if self.earlier else ""
            return f"{before}could not be compared: {self.reason}"
        moment = f"at {self.lsn}" if self.method == "cut" else f"in two steps ({quantity(self.suspects, 'suspect')} read again)"
        at = f"{moment}, {quantity(self.source_rows or 0, 'row', form=',')} in the source, {self.silver_rows:,} in silver"
        if self.looked_up is not None:
            at += f", {quantity(self.looked_up, 'key', form=',')} of silver looked up in the source"
        part = "" if self.share == "1/1" else f" (share {self.share})"
        left_out = f"; not compared: {', '.join(self.not_compared)}" if self.not_compared else ""
        if self.equal:
            return f"equal {at}{part}{left_out}"
        kinds: dict[str, int] = {}
        for difference in self.differences:
            kinds[difference.kind] = kinds.get(difference.kind, 0) + 1
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "not told which"
        buckets = f"; {self.buckets_differing} of {quantity(self.buckets, 'bucket')}" if self.buckets else ""
        still = " still" if self.earlier else ""
        cause = f"; cause: {'; '.join(self.causes)}" if self.causes else ""
        differ = "differs" if self.keys_differing == 1 else "differ"
        return f"{quantity(self.keys_differing, 'key')}{still} {differ} {at}{part}: {told}{buckets}{left_out}{cause}"


def doubts_of_equality(result: TableResult) -> list[str]:
    """Why a table of which no difference was found is not to be called equal; none where it may be.

    Rows that are read in two steps come and go between them: each that does is a suspect.
    """
    source, silver = result.source_rows or 0, result.silver_rows or 0
    found = []
    if abs(source - silver) > (result.suspects if result.method == "two-step" else 0):
        found.append(f"{quantity(source, 'row', form=',')} were compared of the source, and {silver:,} of silver")
    if result.counted is not None and result.counted != source:
        found.append(f"the source's sums are of {quantity(source, 'row', form=',')}, and it counts {result.counted:,}")
    if result.set_aside:
        found.append(f"rows are in doubt by {quantity(result.set_aside, 'record')} in quarantine (cdc quarantine list)")
    return found


def not_compared(source: BaseSource, table: Table, reason: str, *, method: str = "cut") -> TableResult:
    """What stands in the way of comparing, as a result."""
    return TableResult(f"{source.name}/{names.table_name(table)}", NOT_COMPARED, reason, method=method)


class Veil:
    """Values of sensitive columns as hashes that are comparable within one result only: the salt is thrown away."""

    def __init__(self, sensitive: tuple[str, ...]) -> None:
        self._sensitive = frozenset(sensitive)
        self._values = HiddenValues()

    def row(self, row: Row | None) -> Row | None:
        """The row with its sensitive values hidden."""
        if row is None or not self._sensitive:
            return row
        return {name: self._values.hide(text) if name in self._sensitive else text for name, text in row.items()}

    def key(self, text: str, columns: tuple[str, ...]) -> str:
        """A key's text; hidden when a sensitive column is part of it."""
        return str(self._values.hide(text)) if self._sensitive & set(columns) else text

    def over(self, difference: RowDifference, columns: tuple[str, ...]) -> RowDifference:
        """The difference with its sensitive values hidden; `columns` are those of its key."""
        return replace(
            difference,
            key=self.key(difference.key, columns),
            source=self.row(difference.source),
            silver=self.row(difference.silver),
        )
