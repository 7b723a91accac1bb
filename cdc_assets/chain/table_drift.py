"""Whether a table of the lake still is what is declared: folded by the same rules, and readable by all that it is kept for.

Tables say themselves what they were made by, so their logs are read, and no rows. A rule that holds for coming events only, and
leaves rows of before right, is no reason for a replay: docs/how-to/replay.md lists them. A log also says which features a reader
has to know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cdc_assets.clients.delta_log import open_table, silver_committed
from cdc_assets.clients.delta_rows import features_beyond_plain
from cdc_assets.clients.schema_ledger import ledger_of
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import SchemaChanges, Table
from spark.silver.column_ledger import DROPPED, DROPPED_NUMBER, ColumnLedger, FoldRules, rule_changes

_KEEP_ROWS = frozenset({"r", "c", "u"})
"""Operations after which no row is gone."""


@dataclass(frozen=True)
class ReplayReason:
    """What is declared, and what the table has. `as_new`: a replay that keeps columns of earlier schemas would not change it."""

    text: str
    as_new: bool = False


def replay_offer(lake: str, source: BaseSource, table: Table, silver: ColumnLedger) -> str:
    """What differs, and the command that makes the table by the rules of now; empty where that would change nothing."""
    folded = silver_committed(names.silver_path(lake, source, table))
    ops = None if folded is None else {op for topic in folded.topics.values() for op in topic.by_op}
    reasons = [*rule_reasons(table, silver, ops)]
    if table.history == "scd2" and (history := ledger_of(names.history_path(lake, source, table))):
        reasons += tracking_reasons(table, history)
    reasons += column_reasons(table, table.schema_changes or source.schema_changes, silver)
    if not reasons:
        return ""
    flag = " --as-new" if any(reason.as_new for reason in reasons) else ""
    command = f"cdc replay {source.name} {names.table_name(table)}{flag}"
    return f"{'; '.join(reason.text for reason in reasons)}: {command} makes the whole table as it is declared now"


def rule_reasons(table: Table, silver: ColumnLedger, ops: Collection[str] | None) -> Iterator[ReplayReason]:
    """Rules for rows of silver. `ops`: the operations that it has folded; None: not known."""
    keyed = table.without_key != "multiset" and bool(table.keys or silver.keys)
    has_deletes = ops is None or bool({*ops} - _KEEP_ROWS)
    has_truncates = ops is None or "t" in ops
    declared = FoldRules(
        deletes=table.deletes if has_deletes else "",
        truncate=table.truncate if has_truncates else "",
        told_by="key" if keyed else table.without_key,
    )
    yield from _differences("silver", silver, declared)


def tracking_reasons(table: Table, history: ColumnLedger) -> Iterator[ReplayReason]:
    """The columns whose changes make a version of the history."""
    tracked = table.track_history_column_list
    if left_out := table.track_history_except_column_list:
        tracked = tuple(c.name for c in history.of_source() if c.name not in {*left_out, *history.keys})
    yield from _differences("the history", history, FoldRules(track_history=tracked))


def column_reasons(table: Table, policy: SchemaChanges, silver: ColumnLedger) -> Iterator[ReplayReason]:
    """Columns that are there and not declared, that came late, or that have a former name."""
    fields = {c.name: c.event_field.removeprefix(DROPPED) for c in silver.columns}
    if unwanted := [name for name, of_source in fields.items() if of_source in table.except_column_list]:
        text = f"except_column_list leaves out {', '.join(unwanted)}, and silver still has what earlier rows held there"
        yield ReplayReason(text, as_new=True)
    lacking = [name for name in silver.left_out if name not in table.except_column_list]
    if late := [name for name in lacking if policy.add == "evolve" or name in fields.values()]:
        yield ReplayReason(f"{', '.join(late)} was left out by the registry for a time, and rows from then lack its values")
    former = [c for c in silver.columns if c.name in c.formerly and c.number != DROPPED_NUMBER]
    if policy.rename == "evolve" and (old := [c for c in former if c.name.lower() != c.event_field.lower()]):
        unrenamed = ", ".join(f"{c.event_field} is still {c.name}" for c in old)
        yield ReplayReason(f"schema_changes.rename is evolve, and in silver {unrenamed}", as_new=True)


def _differences(what: str, ledger: ColumnLedger, declared: FoldRules) -> Iterator[ReplayReason]:
    for change in rule_changes(ledger.made_by, declared, ledger.tracking()):
        yield ReplayReason(f"{change.rule}: {change.now} is declared, and {what} was folded by {change.was}")


def portability_findings(lake: str, source: BaseSource, table: Table) -> Iterator[str]:
    """One sentence for the table, and for its history, where a feature came before the declaration; none where all is well."""
    if not source.is_portable(table):
        return
    paths = [names.silver_path(lake, source, table)]
    if table.history == "scd2":
        paths.append(names.history_path(lake, source, table))
    for path in paths:
        delta = open_table(path)
        if delta is not None and (features := features_beyond_plain(delta)):
            yield (
                f"{source.name}/{names.table_name(table)} is declared compatibility: portable, and {path} has "
                f"{', '.join(features)}, which some readers lack; docs/how-to/read-tables.md says how to take that away"
            )
