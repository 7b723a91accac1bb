"""What became of each statement: it stops the connector, it bends its model, or neither; and what the product's guard says.

That a model is bent is Debezium's own word: by it, its converters make other values of what the binlog holds than by the model
that its snapshot makes of the server's definition; or it has other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.capture.model_differences import model_difference
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.schema_history import newest_models
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import KINDS
from cdc_assets_tests.support.servers.binlog_server import BinlogServer
from cdc_assets_tests.support.statements.corpus import Case
from cdc_assets_tests.support.statements.played import PlayedCase, play
from cdc_assets_tests.support.statements.read_statements import read_statements
from spark.table.identifiers import double_quote


@dataclass
class Outcome:
    """Of one statement. `stops`: Debezium's error; `unread`: that of the snapshot of a definition behind it; `bends`: in what a
    model is wrong, by table; `guard`: what the product's guard says, by table; `missing`: tables that the model has not."""

    case: Case
    events: Sequence[Sequence[str]]
    stops: str
    unread: str
    bends: dict[str, list[str]] = field(default_factory=dict)
    guard: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    by_snapshot: dict[str, str] = field(default_factory=dict)

    @property
    def missed(self) -> dict[str, list[str]]:
        """What is bent and the guard does not tell."""
        return {table: told for table, told in self.bends.items() if table not in self.guard}

    @property
    def false_alarms(self) -> dict[str, str]:
        """What the guard tells and is not bent; of a snapshot's model too."""
        return {table: told for table, told in self.guard.items() if table not in self.bends} | self.by_snapshot

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.case.statement} (binlog: {[event[0] for event in self.events]}): bent {self.bends}, guard {self.guard}"


def outcomes(kind: str, server: BinlogServer, cases: Sequence[Case]) -> list[Outcome]:
    """Of those that the server accepts."""
    played = play(kind, server, cases)
    answers = read_statements(kind, [each.history() for each in played])
    return [
        judge_step(kind, one, answer["steps"][0])
        for one, answer in zip(played, answers, strict=True)
        if not answer.get("unread")  # what is before it cannot be read at all
    ]


def judge_step(kind: str, one: PlayedCase, step: dict[str, Any]) -> Outcome:
    """By what ReadStatements.java answers."""
    found = Outcome(one.case, one.events, step["stops"] or "", step["unread"] or "")
    for name, told in step["tables"].items():
        table = one.catalogue.get(name)
        if table is None or told["snapshot"] is None:
            continue  # a sequence; a definition that a snapshot cannot read
        if differs := guard_says(kind, one.database, table, told["snapshot"]):
            found.by_snapshot[name] = differs
        if found.stops:
            continue
        if told["model"] is None:
            found.missing.append(name)
            continue
        if told["bends"]:
            found.bends[name] = told["bends"]
        if differs := guard_says(kind, one.database, table, told["model"]):
            found.guard[name] = differs
    return found


def guard_says(kind: str, database: str, table: CatalogueTable, model: dict[str, Any]) -> str:
    """The difference that the product's check would tell; empty: none."""
    record = {"tableChanges": [{"type": "ALTER", "id": double_quote(*table.id), "table": model}]}
    (read,) = newest_models([record], [TableId(database, table.id.table)]).values()
    difference = model_difference(read, table, KINDS[kind].signed_words)
    return "; ".join(difference.found) if difference else ""
