"""What the product refuses by design, or stops at: each is red within a cycle, and the command that is named mends it.

Several clauses in one ALTER, types by their other names, DDL and changes that the binlog does not have as row events, row images
with gaps. What is red, and by which words, is asked as a person would; the command that is named is run; and then the rows are
the server's again. Tables here have plain names: no signal can name others (docs/how-to/onboarding.md).
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

import dagster as dg
import pymysql

from cdc_assets.capture.log_position import CaughtUpTimeoutError
from cdc_assets.capture.preflight.inspection import preflight
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.capture_assets import flow_check
from cdc_assets.defs.check_specs import EVENTS_FLOW
from cdc_assets.registry import names
from cdc_assets_tests.hostile.binlog_clauses import draw_clauses
from cdc_assets_tests.hostile.binlog_facts import BinlogFacts
from cdc_assets_tests.hostile.binlog_tables import Column, Table
from cdc_assets_tests.hostile.command import cdc
from cdc_assets_tests.support.live.clusters import until

if TYPE_CHECKING:
    from cdc_assets_tests.hostile.world import HostileChain
    from cdc_assets_tests.support.servers.binlog_server import BinlogServer

_PARTS = "PARTITION p0 VALUES LESS THAN (20), PARTITION p1 VALUES LESS THAN (40), PARTITION p2 VALUES LESS THAN MAXVALUE"
_COMMAND = re.compile(r"cdc (?:repair (?:bronze|model)|reconcile) [^;,()]+?(?= \(|[;,)]|\. |$)")
_LONG = '{"a": 1, "b": [1, 2, 3, 4, 5, 6, 7, 8]}'


def troubled_tables(facts: BinlogFacts, schema: str, number: int) -> list[Table]:
    """What is altered, spoken to in statements, taken parts from, and written with gaps: one table each."""
    whole, text = facts.whole, "varchar(400)"
    columns = {
        "words": (("a", whole), ("b", "varchar(40)"), ("c", "decimal(10,2)"), ("d", "datetime(3)")),
        "unlogged": (("a", whole), ("b", whole), ("c", whole)),
        "spoken": (("n", whole), ("v", text)),
        "parts": (("v", "varchar(40)"),),
        "gaps": (("n", whole), ("v", "text")),
    }
    made = []
    for place, (name, others) in enumerate(columns.items(), number):
        id_ = Column("id", whole, "{n}", required=True)
        values = [Column(n, kind, "'changed'" if kind == text else "") for n, kind in others]
        table = Table(facts, schema, name, place, [id_, *values], ("id",), declared={"name": f"{schema}.{name}"})
        listed = ", ".join(f"{c.sql} {c.type}" for c in table.columns)
        more = ", j json" if name == "spoken" else ""
        parts = f" PARTITION BY RANGE (id) ({_PARTS})" if name == "parts" else ""
        table.ddl = [f"CREATE TABLE {table.sql} ({listed}{more}, PRIMARY KEY (id)) CHARACTER SET utf8mb4{parts}"]
        made.append(table)
    made[0].declared["history"] = made[4].declared["history"] = "scd2"
    made[2].declared["except_column_list"] = ["j"]
    return made


@dataclass
class Troubles:
    """Of one world, one after the other; `told` is what happened, for whoever reads a failure."""

    random: Random
    server: BinlogServer
    chain: HostileChain
    tables: dict[str, Table]
    told: list[str]
    flows: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)

    def play(self) -> None:
        """Each is red, and is right behind the commands that it names."""
        assert self.flow() == "", self.flow()
        for play in (self.clauses, self.unlogged, self.spoken, self.parts, self.gaps, self.versions):
            play()
        for table in self.tables.values():
            # What came by a wrong model, and no type takes, is settled: the table was read again.
            assert not self.chain.open_records(self.chain.source.table(table.declared["name"])), self.told

    def clauses(self) -> None:
        """Statements of several clauses: what Debezium misreads is told, and anything else is read rightly."""
        table = self.tables["words"]
        for _ in range(3):
            self._alter(table)
            self._rewrite(table)
            self._mend_models()

    def unlogged(self) -> None:
        """The binlog never has the statement."""
        table = self.tables["unlogged"]
        moved = self.random.choice(table.others)
        place = self.random.choice(("FIRST", *(f"AFTER {c.sql}" for c in table.others if c is not moved)))
        self.execute("SET sql_log_bin = 0", f"ALTER TABLE {table.sql} MODIFY {moved.sql} {moved.type} {place}")
        self._read_columns(table)
        if table.facts.misread:
            self._rewrite(table)
            self._mend_models()
        else:
            self.execute("SET sql_log_bin = 0", f"ALTER TABLE {table.sql} {self._back(table)}")

    def spoken(self) -> None:
        """Changes that are no row events."""
        table, facts = self.tables["spoken"], self.tables["spoken"].facts
        gone, settings = False, self.random.choice(facts.statements)
        self.execute(f"UPDATE {table.sql} SET j = '{_LONG}'")
        self.chain.advance()
        if "PARTIAL_JSON" in settings[0]:
            acts = [f"UPDATE {table.sql} SET n = 5, j = JSON_SET(j, '$.a', 2) WHERE id % 3 = 0"]
        else:
            acts = [
                f"INSERT INTO {table.sql} (id, n, v) VALUES (901, 1, REPEAT('a', 300)), (902, 2, NULL)",
                f"UPDATE {table.sql} SET n = id + 1, v = REPEAT('b', 300) WHERE id % 4 = 1",
                f"DELETE FROM {table.sql} WHERE id % 7 = 2",
                f"REPLACE INTO {table.sql} (id, n, v) VALUES (3, 3, REPEAT('c', 300))",
            ]
            acts = self.random.sample(acts, 2)
            gone = any(act.startswith("DELETE") for act in acts)
        try:
            self.execute(*settings, *acts)
        finally:
            self.server.execute(*facts.without)
        self._is_red(table, gone=gone)

    def parts(self) -> None:
        """Rows that go, and come, by DDL."""
        table = self.tables["parts"]
        beside = table.sql.replace("parts", "beside")
        ways = [
            (f"ALTER TABLE {table.sql} DROP PARTITION p0",),
            (f"ALTER TABLE {table.sql} TRUNCATE PARTITION p1",),
            (
                f"CREATE TABLE {beside} LIKE {table.sql}",
                f"ALTER TABLE {beside} REMOVE PARTITIONING",
                f"INSERT INTO {beside} VALUES (25, 'exchanged')",
                f"ALTER TABLE {table.sql} EXCHANGE PARTITION p1 WITH TABLE {beside}",
            ),
        ]
        for statements in self.random.sample(ways, 2):
            self.execute(*statements, table.insert(self.random, 2))
        self._is_red(table, gone=True)

    def gaps(self) -> None:
        """The connector stops at the first image without some column."""
        table = self.tables["gaps"]
        image = self.random.choice(("MINIMAL", "NOBLOB"))
        self.execute(f"SET SESSION binlog_row_image = {image}", f"UPDATE {table.sql} SET n = 77 WHERE id % 2 = 0")
        name = names.connector_name(self.chain.source)
        connect = self.chain.live.connect
        until(lambda: (status := connect.status(name)) is not None and status.failed, seconds=120)
        text = self.flow()
        assert f"{table.declared['name']}: " in text, text
        model, compare = [c for c in _COMMAND.findall(text) if self._short(table) in c]
        self.run(model)
        connect.wait_running(name)
        self.chain.advance()
        self._compare(table, compare)

    def versions(self) -> None:
        """The server keeps versions of rows: of a table beside, then of a captured one, which is refused with its end."""
        table, source = self.tables["gaps"], self.chain.source
        if not table.facts.versions:
            return
        beside = table.sql.replace("gaps", "kept")
        self.execute(
            f"CREATE TABLE {beside} (id int PRIMARY KEY, n int) WITH SYSTEM VERSIONING",
            *(f"INSERT INTO {beside} VALUES (1, 1), (2, 2)", f"UPDATE {beside} SET n = 3 WHERE id = 1"),
            f"DELETE FROM {beside} WHERE id = 2",
        )
        self._carry()
        rows = (table.insert(self.random, 3), f"UPDATE {table.sql} SET n = 78", f"DELETE FROM {table.sql} WHERE id % 5 = 0")
        self.execute(f"ALTER TABLE {table.sql} ADD SYSTEM VERSIONING", *rows)
        (found,) = [f for f in self._preflight() if f.check == "versioned" and f.level == "fail"]
        assert found.subject == table.declared["name"], (self.told, found)
        self.execute(str(found.mend).partition(", or ")[0], *rows)
        self._carry()
        self._compare(table, f"cdc reconcile {source.name}.{self._short(table)}")

    def _carry(self) -> None:
        """All that is committed is in silver, past what the connector stands at: by the command that it names."""
        name = names.connector_name(self.chain.source)
        connect, deadline = self.chain.live.connect, time.monotonic() + 240
        while True:
            with suppress(CaughtUpTimeoutError):
                self.chain.live.delivered(seconds=15)
                break
            status = connect.status(name)
            if status is not None and status.failed:
                (command,) = {command for line in status.trace for command in _COMMAND.findall(line)}
                self.run(command)
                connect.wait_running(name)
            assert time.monotonic() < deadline, (self.told, status)
        self.chain.advance()

    def _is_red(self, table: Table, *, gone: bool) -> None:
        text, short = self.flow(), self._short(table)
        assert f"{table.declared['name']}: " in text, (self.told, text)
        heal, anew, compare = [c for c in _COMMAND.findall(text) if f"{short}" in c]
        self.chain.advance()
        self.run(anew if gone else heal)
        self.chain.advance()
        self._compare(table, compare)

    def _compare(self, table: Table, command: str = "") -> None:
        """The row comparison that ends it: equal, and the check of the connector passes."""
        self.run(command or f"cdc reconcile {self.chain.source.name}.{self._short(table)}")
        assert self.flow() == "", self.flow()

    def _mend_models(self) -> None:
        """Of what is held, preflight names the command; what is not held is read as the server has it."""
        self._carry()
        wrong = {f.subject: str(f.mend) for f in self._preflight() if f.check == "table_model" and f.level == "fail"}
        assert {str(id_) for id_ in self.chain.held} == {*wrong}, (self.told, self.chain.held, wrong)
        for subject, mend in wrong.items():
            self.told.append(f"{subject} is mended: {mend}")
            self.run(mend)
            self.chain.live.connect.wait_running(names.connector_name(self.chain.source))
        self.chain.advance()
        assert not self.chain.held, (self.told, self.chain.held)

    def _preflight(self) -> Sequence[Any]:
        url, at = self.chain.live.connect.url, self.chain.live.bootstrap
        platform = Platform(core_bootstrap=at, lake_bootstrap=at, core_connect_url=url, lake_connect_url=url)
        return preflight(Chain(platform, self.chain.source)).findings

    def flow(self) -> str:
        """What the check `events_flow` says as Dagster runs it; empty when it passes."""
        source = self.chain.source
        result = dg.materialize(
            flow_check.build(source),
            selection=dg.AssetSelection.checks(EVENTS_FLOW.key(source)),
            resources={"platform": self.chain.platform},
            instance=self.flows,
            raise_on_error=False,
        )
        (told,) = result.get_asset_check_evaluations()
        return "" if told.passed else told.description or "it failed"

    def run(self, command: str) -> None:
        """By the letter."""
        self.told.append(command)
        done = cdc(self.chain, *shlex.split(command)[1:])
        assert done.exit_code == 0, (self.told, done.output, done.exception)

    def execute(self, *statements: str) -> None:
        """In one session."""
        self.told.extend(statements)
        self.server.execute(*statements)

    def _short(self, table: Table) -> str:
        return names.table_name(self.chain.source.table(table.declared["name"]))

    def _alter(self, table: Table) -> None:
        """One statement that the server takes."""
        while True:
            before = replace(table, columns=[replace(column) for column in table.columns])
            mode = self.random.choice(("", *table.facts.modes))
            words = {**table.facts.words, **table.facts.modes.get(mode, {})}
            # What a mode has besides is drawn as often as the rest.
            chosen = self.random.sample(sorted(words), 4) + sorted(table.facts.modes.get(mode, {}))
            statement = draw_clauses(self.random, table, {kind: words[kind] for kind in chosen})
            if mode in ("ANSI_QUOTES", "ORACLE"):
                statement = statement.replace("`", '"')
            try:
                self.execute(*([f"SET sql_mode = CONCAT(@@sql_mode, ',{mode}')"] if mode else []), statement)
            except pymysql.err.MySQLError as error:
                self.told.append(f"refused: {error}")
                table.columns = before.columns
            else:
                break
        self._read_columns(table)

    def _read_columns(self, table: Table) -> None:
        """In the server's order, by the catalogue's names of their types, with what their character sets take."""
        known = {column.name: column for column in table.columns}
        rows = self.server.query(
            "SELECT column_name, column_type, character_set_name FROM information_schema.columns "
            f"WHERE table_schema = '{table.schema}' AND table_name = '{table.name}' ORDER BY ordinal_position"
        )
        table.columns = []
        for name, kind, charset in rows:
            column = replace(known[str(name)], type=kind.decode() if isinstance(kind, bytes) else str(kind))
            # CHANGE and MODIFY give a text the table's character set of then.
            narrow = charset in ("latin1", "utf8mb3")
            table.columns.append(replace(column, key=(column.key or "'é€'").replace("😀", "")) if narrow else column)

    def _rewrite(self, table: Table) -> None:
        """Rows of then, and those of before once more: no event tells of what a change has rewritten."""
        held = f"CREATE TEMPORARY TABLE held AS SELECT * FROM {table.sql}"
        again = f"INSERT INTO {table.sql} SELECT * FROM held"
        rows = [table.insert(self.random, 3, "REPLACE") for _ in range(2)]
        self.execute(f"USE `{table.schema}`", *rows, held, f"DELETE FROM {table.sql}", again, "DROP TEMPORARY TABLE held")

    def _back(self, table: Table) -> str:
        """As it was, before a row is written."""
        order = sorted(table.others, key=lambda column: column.name)
        pairs = zip(order, ["id", *(column.name for column in order)], strict=False)
        return ", ".join(f"MODIFY {column.sql} {column.type} AFTER `{name}`" for column, name in pairs)
