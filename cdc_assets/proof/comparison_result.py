"""What a comparison of a table, or of its history, has found: one verdict with its evidence.

The keys that differ are judged once at a cut, or round by round until they are stable. Values of sensitive columns stay veiled,
and a history tells keys and versions alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from cdc_assets.capture.source_columns import cause_of, source_columns
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.schema_ledger import ledger_of
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.display_text import HiddenValues
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.silver.column_ledger import ATTRIBUTES, RELABEL, ColumnChange, member_changes

if TYPE_CHECKING:
    from cdc_assets.proof.compared_table import ComparedTable, SourceSide
    from spark.proof.bucket_sums import KeyHashes, Suspect, Task, Texts

EQUAL, DIFFERENT, INCONCLUSIVE = "equal", "different", "inconclusive"


@dataclass(frozen=True)
class ComparisonResult:
    """What every comparison says: the part of the table, the columns left out and why, seconds by phase, keys that were healed.

    `earlier`: an earlier run had found that this part differs.
    """

    table: str
    verdict: str
    reason: str = ""
    _: KW_ONLY
    silver_version: int | None = None
    share: str = "1/1"
    keys_differing: int = 0
    not_compared: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    healed: int | None = None
    earlier: bool = False

    @property
    def equal(self) -> bool:
        """Everything that was compared is as it must be."""
        return self.verdict == EQUAL

    @property
    def decided_by(self) -> str:
        """What would decide an inconclusive comparison; empty where it is decided."""
        return f"cdc reconcile {self.table}, once that is mended" if self.verdict == INCONCLUSIVE else ""


HISTORY, SILVER, EITHER = "history", "silver", "history or silver"


@dataclass(frozen=True)
class HistoryDifference:
    """One key: what is wrong with its versions, which (`_valid_from`), which columns differ, and which proofs say so.

    `where`: history, where bronze makes other versions; silver, where only silver's row is another; either, where bronze
    cannot say.
    """

    key: str
    kinds: tuple[str, ...]
    versions: tuple[str, ...]
    columns: tuple[str, ...]
    where: str
    proofs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class HistoryResult(ComparisonResult):
    """One history at one version, and silver at the version that has folded the same. Seconds by phase: wait, lake.

    `current` are its versions that hold. Not compared is also what bronze cannot prove; what was proven otherwise is told.
    """

    version: int | None = None
    versions: int = 0
    current: int = 0
    differences: tuple[HistoryDifference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `cdc reconcile -o json` nests it."""
        return {**asdict(self), "decided_by": self.decided_by}

    def sentence(self) -> str:
        """For people, in one line."""
        share = "" if self.share == "1/1" else f" (share {self.share})"
        counted = f"{quantity(self.versions, 'version', form=',')}, {self.current:,} of them current{share}"
        if self.verdict == INCONCLUSIVE:
            before = f"a part that was wrong before (share {self.share}) is " if self.earlier else ""
            proven = f"; {counted}: no other fault was found" if self.version is not None else ""
            return f"{before}inconclusive: {self.reason}{proven}"
        left_out = f"; not compared: {', '.join(self.not_compared)}" if self.not_compared else ""
        if self.equal:
            return f"{counted}: as bronze makes them, and the current ones are silver's rows{left_out}"
        kinds = Counter(kind for difference in self.differences for kind in difference.kinds)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        still = " still" if self.earlier else ""
        unfolded = f"; not folded again: {self.reason}" if self.reason else ""
        return f"{quantity(self.keys_differing, 'key')}{still} wrong in {counted}: {counts}{unfolded}{left_out}"


Row = Mapping[str, str | None]
IN_SILVER, IN_QUARANTINE, BEFORE_SILVER = "silver", "quarantine", "bronze or before it"


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
    """One table at one position. Seconds by phase: source, carry, lake, drill, rounds.

    `lsn` is the place in the log, or of topics, for people.

    `looked_up` are the keys of silver that were asked for at the source, beside the rows compared (two ranges, ADR 48).
    `history` is what the proof of the table's history found, where it has one (cdc reconcile).
    `method` is `two-step` where the source tells no exact moment: `suspects` were read again, `in_flight` are those that are
    neither cleared nor confirmed.
    `source_digest` and `silver_digest` are of the sums of all buckets, at a cut: the same text says that all rows are the same.
    `counted` are the source's rows by a statement of its own, and `set_aside` the records in quarantine that leave rows in doubt.
    `causes` are what became of a type of a column that differs (cdc_assets.capture.source_columns).
    Whichever way the rows were compared, no table is called equal against these figures (doubts_of_equality).
    """

    snapshot: str = ""
    lsn: str = ""
    source_rows: int | None = None
    silver_rows: int | None = None
    counted: int | None = None
    set_aside: int = 0
    source_digest: str = ""
    silver_digest: str = ""
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
            object.__setattr__(self, "verdict", INCONCLUSIVE)
            object.__setattr__(self, "reason", f"no row was found to differ, but {'; '.join(doubts)}")

    @property
    @override
    def decided_by(self) -> str:
        if self.verdict != INCONCLUSIVE:
            return ""
        if self.set_aside:
            return f"cdc quarantine list {self.table}: redrive or drop the records, then cdc reconcile {self.table}"
        if self.in_flight:
            return f"cdc reconcile {self.table}, while these keys are written less often"
        return super().decided_by

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one table's comparison."""
        data = {**asdict(self), "decided_by": self.decided_by}
        for shown, difference in zip(data["differences"], self.differences, strict=True):
            shown["columns"] = list(difference.columns)
        if self.history is None:
            del data["history"]
        else:
            data["history"] = self.history.to_json()
        return data

    def sentence(self) -> str:
        """For people, in one line."""
        if self.verdict == INCONCLUSIVE:
            before = f"a part that differed before (share {self.share}) is " if self.earlier else ""
            return f"{before}inconclusive: {self.reason}"
        moment = f"at {self.lsn}" if self.method == "cut" else f"in two steps ({quantity(self.suspects, 'suspect')} read again)"
        at = f"{moment}, {quantity(self.source_rows or 0, 'row', form=',')} in the source, {self.silver_rows:,} in silver"
        if self.looked_up is not None:
            at += f", {quantity(self.looked_up, 'key', form=',')} of silver looked up in the source"
        share = "" if self.share == "1/1" else f" (share {self.share})"
        left_out = f"; not compared: {', '.join(self.not_compared)}" if self.not_compared else ""
        if self.equal:
            return f"equal {at}{share}{left_out}"
        kinds: dict[str, int] = {}
        for difference in self.differences:
            kinds[difference.kind] = kinds.get(difference.kind, 0) + 1
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "not told which"
        buckets = f"; {self.buckets_differing} of {quantity(self.buckets, 'bucket')}" if self.buckets else ""
        still = " still" if self.earlier else ""
        cause = f"; cause: {'; '.join(self.causes)}" if self.causes else ""
        differ = "differs" if self.keys_differing == 1 else "differ"
        return f"{quantity(self.keys_differing, 'key')}{still} {differ} {at}{share}: {counts}{buckets}{left_out}{cause}"


def doubts_of_equality(result: TableResult) -> list[str]:
    """Why a table of which no difference was found is not to be called equal; none where it may be.

    Rows that are read in two steps come and go between them: each that does is a suspect.
    """
    source, silver = result.source_rows or 0, result.silver_rows or 0
    doubts = []
    if abs(source - silver) > (result.suspects if result.method == "two-step" else 0):
        doubts.append(f"{quantity(source, 'row', form=',')} were compared of the source, and {silver:,} of silver")
    if result.counted is not None and result.counted != source:
        doubts.append(f"the source's sums are of {quantity(source, 'row', form=',')}, and it counts {result.counted:,}")
    if result.set_aside:
        doubts.append(f"rows are in doubt by {quantity(result.set_aside, 'record')} in quarantine (cdc quarantine list)")
    return doubts


def not_compared(source: BaseSource, table: Table, reason: str, *, method: str = "cut") -> TableResult:
    """What stands in the way of comparing, as a result."""
    return TableResult(f"{source.name}/{names.table_name(table)}", INCONCLUSIVE, reason, method=method)


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


MAX_SHOWN = 1000


@dataclass(frozen=True)
class HashedSides:
    """Rows (key and hash) of the source and of the lake."""

    source: KeyHashes
    lake: KeyHashes

    @property
    def differing_keys(self) -> list[str]:
        """The keys (texts) whose rows are not the same on both sides, in order."""
        return sorted({key for key, _ in (*(self.source - self.lake), *(self.lake - self.source))})


@dataclass
class Suspects:
    """The keys that are neither cleared nor confirmed yet, and what the last round found of them."""

    pending: set[str]
    last: dict[str, object] = field(default_factory=dict)
    confirmed: dict[str, tuple[Texts | None, Suspect]] = field(default_factory=dict)

    def judge(
        self,
        before: Mapping[str, Texts],
        lake: Mapping[str, Suspect],
        after: Mapping[str, Texts],
        unknown: Collection[str] = (),
    ) -> None:
        """One round: S1, L, S2. Of `unknown` keys the source's side cannot tell whether they have a row: they stay."""
        for key in sorted(self.pending - {*unknown}):
            first, suspect, second = before.get(key), lake[key], after.get(key)
            if suspect.copies <= 1 and suspect.silver in (first, second):
                self.pending.discard(key)
                continue
            same = (first, suspect.silver, suspect.copies) if first == second else None
            if same is not None and self.last.get(key) == same:
                self.pending.discard(key)
                self.confirmed[key] = (first, suspect)
            self.last[key] = same


def rows_of_keys(
    compared: ComparedTable, task: Task, side: SourceSide, result: TableResult, sides: HashedSides, *, settled: bool = True
) -> TableResult:
    """The result with the keys that differ at a cut; `settled`: these are all.

    A key is different when the source's row is not the one that silver has at the cut. Where the cut hides events of the key
    that silver had folded already, silver cannot say: bronze, folded up to the cut, speaks for it.
    """
    from spark.proof import bucket_sums

    text, keys = compared.text, sides.differing_keys
    shown, more = keys[:MAX_SHOWN], max(0, len(keys) - MAX_SHOWN)
    answers: Mapping[str, Suspect] = {}
    rows: Mapping[str, Texts] = {}
    if shown:
        spark = compared.chain.platform.spark()
        answers = spark.compare(lambda session, asked: bucket_sums.suspects(session, asked, shown), task)
        rows = side.rows.texts(compared.table.id, text, shown)
    hashes, copies = dict([*sides.source]), Counter(key for key, _ in sides.lake.elements())
    judged = {key: _judge_at_cut(key, hashes.get(key), rows.get(key), answers[key], copies[key]) for key in shown}
    differences = [difference for difference in judged.values() if difference is not None]
    # Of a key that was only a matter of the cut bronze speaks: whether it has a row. Of two ranges the source's keys are counted.
    cleared = [k for k, difference in judged.items() if difference is None and (k in hashes or result.looked_up is None)]
    moved = sum((answers[key].bronze_hash is not None) - copies[key] for key in cleared)
    result = replace(result, silver_rows=(result.silver_rows or 0) + moved)
    return with_differences(
        result, differences, Veil(compared.table.sensitive), text.keys, settled=settled and not more, more=more
    )


def _judge_at_cut(key: str, wanted: int | None, row: Texts | None, suspect: Suspect, copies: int) -> RowDifference | None:
    if wanted is not None and row is None:
        raise CdcAssetsError("the source's table was rewritten or truncated during the comparison; run it again")
    if suspect.hides and suspect.bronze_hash == wanted:
        return None
    silver = suspect.bronze if suspect.hides else suspect.silver
    return difference_of(key, row, suspect, silver, copies, in_bronze=suspect.bronze_hash == wanted)


def difference_of(
    key: str, row: Texts | None, suspect: Suspect, silver: Texts | None, copies: int, *, in_bronze: bool | None = None
) -> RowDifference:
    """What is wrong with a key. `in_bronze`: whether bronze has the source's row, where its hash says so; else by its texts."""
    kind = "missing" if silver is None else "phantom" if row is None else "twice" if copies > 1 else "differs"
    found_in_bronze = suspect.bronze == row if in_bronze is None else in_bronze
    where = IN_SILVER if found_in_bronze else IN_QUARANTINE if suspect.set_aside else BEFORE_SILVER
    return RowDifference(key, kind, row, silver, where, max(1, copies))


def whole_rows(sides: HashedSides) -> list[RowDifference]:
    """Rows without a key: how many copies one side has more of."""
    more_of = {"missing": sides.source - sides.lake, "phantom": sides.lake - sides.source}
    return [
        RowDifference(text, kind, None, None, "not told without a key", copies)
        for kind, more in more_of.items()
        for (text, _), copies in more.items()
    ]


def with_differences(
    result: TableResult, differences: Sequence[RowDifference], veil: Veil, keys: tuple[str, ...], *, settled: bool, more: int = 0
) -> TableResult:
    """The result with these, and `more` that are only counted; `settled`: there are no others."""
    if not differences and settled:
        return replace(result, verdict=EQUAL, buckets_differing=0)
    shown = tuple(veil.over(d, keys) for d in differences[:MAX_SHOWN])
    return replace(result, differences=shown, keys_differing=len(differences) + more)


def with_causes(
    chain: Chain[BaseSource], catalogue: Mapping[TableId, CatalogueTable], found: Mapping[str, TableResult]
) -> dict[str, TableResult]:
    """By short table name, as they came; each that differs in a column whose type was changed has the causes."""
    tables = {names.table_name(table): table for table in chain.source.tables}
    answer = dict(found)
    for name, result in found.items():
        columns = {column for difference in result.differences for column in difference.columns}
        table = tables.get(name)
        if columns and table is not None and (there := catalogue.get(table.id)):
            told = [cause_of(change) for change in _changes(chain, table, there) if change.column in columns]
            answer[name] = replace(result, causes=tuple(told))
    return answer


def _changes(chain: Chain[BaseSource], table: Table, now: CatalogueTable) -> list[ColumnChange]:
    """Those that silver's ledger has, and those since: a table at rest is not folded, so its ledger does not know them."""
    ledger = ledger_of(chain.silver_path(table))
    if ledger is None:
        return []
    known = {column.event_field: column for column in ledger.columns}
    since = [
        c for new in source_columns(chain.source, table, now) if new.name in known for c in member_changes(known[new.name], new)
    ]
    return [*(change for change, _ in ledger.changes_of(RELABEL, ATTRIBUTES)), *since]
