"""One world on its way through the chain: folded by several workers, with histories, and looked at by two readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from typing_extensions import override

from cdc_assets.capture.preflight.table_models import why_held
from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.bronze_append import append, look
from cdc_assets.chain.fold_specs import history_spec, silver_spec
from cdc_assets.chain.quarantine import quarantine_records
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.field_types import TableId, parse_table
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.hostile.command import reconcile
from cdc_assets_tests.support.lake.delta_reader import Rows, difference
from cdc_assets_tests.support.live.small_chain import SmallChain
from spark.silver import fold_job as silver
from spark.silver import history_job as history
from spark.silver import small_tables
from spark.specs import JobResult

AT_ONCE = 3
InSilver = Callable[[Any, str, str], Rows]
"""Of a table, a Delta table's folder, and a condition in it."""


@dataclass
class HostileChain(SmallChain):
    """The chain of a world's tables. `held`: those that the last fold has left alone, and why."""

    held: Mapping[TableId, str] = field(default_factory=dict)

    @override
    def advance(self, *, fold: bool = True, wait: bool = True, tables: Sequence[str] = ()) -> None:
        if wait:
            self.live.delivered()
        self._copier.copy()
        append(
            Chain(self.platform, self.source), look(Chain(self.platform, self.source), self.source.tables), "test", lambda _: None
        )
        if fold:
            self.fold(tables)

    @override
    def fold(self, tables: Sequence[str] = ()) -> None:
        chosen = [self.source.table(t) for t in tables] or list(self.source.tables)
        found = catalogue_of(Chain(self.platform, self.source), chosen)
        self.held = why_held(Chain(self.platform, self.source), chosen, found)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(self._fold, table, found[table.id]) for table in chosen if table.id not in self.held]:
                done.result()

    def _fold(self, table: Table, found: CatalogueTable) -> JobResult:
        spec = silver_spec(str(self.root), self.source, table, found)
        # By whichever writer takes it, as cdc_assets.silver does.
        [outcome] = self.platform.spark().run_in_tasks(small_tables.run, small_tables.SmallTablesSpec((spec,)))
        result = outcome.result or self.platform.spark().run(silver.run, spec)
        if table.history == "scd2":
            spec = replace(spec, folded_limit=None)
            self.platform.spark().run(history.run, history_spec(str(self.root), self.source, table, spec))
        return result

    def troubles(self) -> dict[str, object]:
        """What is not as it must be once silver has all: no table is held, nothing is in quarantine, all is equal."""
        return {"held": self.held, "quarantined": self.quarantined(), "cdc reconcile": self.not_reconciled()}

    def quarantined(self) -> dict[str, Any]:
        """What could not be folded, by table."""
        found = {table.name: self.open_records(table) for table in self.source.tables}
        return {name: [str(row)[:1500] for row in rows[:3]] for name, rows in found.items() if rows}

    def open_records(self, table: Table) -> list[dict[str, Any]]:
        """Those of a table that `cdc quarantine list` shows, without their bytes."""
        return [record.facts for record in quarantine_records(str(self.root), self.source, table)]

    def not_equal(self, **options: Any) -> dict[str, Any]:
        """What reconcile says of tables that are not equal, or of which a column is not compared that none has accepted."""
        accepted = {names.table_name(table): set(table.accept_inexact) for table in self.source.tables}
        return {
            name: (result.sentence(), result.differences[:2], dict(result.not_compared))
            for name, result in self.compare(**options).items()
            if not result.equal or set(result.not_compared) - accepted[name]
        }

    def not_reconciled(self) -> dict[str, Any]:
        """The same by the command, which proves histories as well: it names each table, says no more, and ends with 0."""
        accepted = {f"{self.source.name}/{names.table_name(table)}": set(table.accept_inexact) for table in self.source.tables}
        code, told, results = reconcile(self)
        found: dict[str, Any] = {
            result["table"]: {**result, "differences": result["differences"][:2]}
            for result in results
            if result["verdict"] != "equal"
            or result.get("history", {}).get("verdict", "equal") != "equal"
            or set(result["not_compared"]) - accepted[result["table"]]
        }
        untold = set(accepted) - {result["table"] for result in results}
        return (
            found if (code, told, untold) == (0, "", set()) else {**found, "exit code": code, "told": told, "not named": untold}
        )

    def wrong_rows(self, tables: Sequence[Any], in_source: Callable[[Any], Rows], in_silver: InSilver) -> str:
        """Of each table what only the source or only silver has, and its history's current versions; '' where nothing."""
        told = []
        for table in tables:
            wanted, path = in_source(table), self.silver(str(parse_table(table.declared["name"])))
            places = {path: "NOT _cdc_deleted" if table.declared.get("deletes") == "soft" else "true"}
            if table.declared.get("history"):
                places[f"{path}__history"] = "_is_current"
            told += [
                f"{table.shape} table {table.name!r}, {place.rpartition('/')[2]}: {said}"
                for place, condition in places.items()
                if (said := difference(wanted, in_silver(table, place, condition)))
            ]
        return "\n".join(told)


@contextmanager
def tell_of(happened: list[str]) -> Iterator[None]:
    """What fails within tells which changes of the schema came before."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{error}\nhappened: {happened}") from error


@contextmanager
def hostile_chain(live: Any, remote: str, session: Any, root: Path, tables: list[Any]) -> Iterator[HostileChain]:
    """The tables are there and filled; they are captured, and silver is up to date."""
    live.capture(tables)
    with live.settings():
        live.delivered()
        chain = HostileChain(live, remote, root, live.source(tables), session)
        chain.advance(wait=False)
        connector = f"{live.name}-capture"
        try:
            yield chain
        except Exception as error:
            raise AssertionError(f"{error}\nthe connector: {live.connect.status(connector)}") from error
        finally:
            live.connect.delete(connector)
