"""PostgreSQL: publication, slot, and the transactions that wrote before a table was published.

A change is decoded only when its table was in the publication when it was written, and Debezium's mode `filtered` adds it only
when the connector starts (design trap: a snapshot that begins before loses them). So the tables are published while the
connector is stopped. A transaction that wrote before and commits later is in no event at all: whoever held a writer's lock on
the tables when the publication had them is awaited. Writers that come later are not held up, nor waited for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.connectors.connector_restart import has_place
from cdc_assets.capture.connectors.postgresql_connector import temporary_config
from cdc_assets.capture.incarnations.postgresql_incarnation import log_position
from cdc_assets.capture.onboarding.onboarding_state import Facts, Route, await_ended
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.postgresql_capture import PostgresCapture
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import CapturedSource
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.capture.onboarding.onboarding_state import OnboardingWork

_PUBLISHED_DEADLINE_SECONDS = 60.0


class PostgresKind:
    """Onboarding of tables in PostgreSQL (`onboarding_state.OnboardingKind`)."""

    refused: Mapping[Route, str] = {}
    not_by_git = ""
    keyless = (
        "{table} has no primary key: published, its UPDATE and DELETE would fail for the application, and a snapshot by chunks "
        "cannot read it; add a primary key, or ALTER TABLE {table} REPLICA IDENTITY FULL and declare its keys in the registry"
    )
    outlives_session = False
    rows_rank_by_place = False

    def database(self, source: CapturedSource) -> PostgresCapture:
        """The source's PostgreSQL, opened for capture."""
        return capture_of(source)

    def unready(self, work: OnboardingWork, ids: Sequence[TableId]) -> list[str]:
        """Tables that the role cannot publish."""
        message = "{} belongs to {}, and only an owner can publish it: GRANT {} TO the connector's user"
        return [message.format(table, owner, owner) for table, owner in capture_of(work.declared).not_owned(ids).items()]

    def columns(self, work: OnboardingWork, found: Mapping[TableId, CatalogueTable]) -> Mapping[TableId, CatalogueTable]:
        """As the catalogue has them."""
        return found

    def why_uncountable(self, work: OnboardingWork) -> str:
        """Empty: rows can always be counted in an exported snapshot."""
        return ""

    def halt(self, work: OnboardingWork, source: CapturedSource) -> float:
        """Stop the running connector; answers when that began (time.monotonic)."""
        began = time.monotonic()
        work.core_connect.stop(names.connector_name(source))
        return began

    def update_capture(self, work: OnboardingWork, source: CapturedSource) -> None:
        """The publication gets the tables, or loses them; without the signal table no signal would be in the log."""
        database, publication, signals = capture_of(work.declared), names.publication_name(source), names.signal_table(source)
        if source is work.after:
            database.publish(publication, [*(table.id for table in work.tables), *database.tables([signals])])
        else:
            kept = {table.id for table in source.tables}
            database.unpublish(publication, [table.id for table in work.tables if table.id not in kept])

    def reader(self, work: OnboardingWork) -> str:
        """The process at its slot."""
        return capture_of(work.declared).slot_process(names.slot_name(work.after))

    def log_end(self, work: OnboardingWork) -> int:
        """The end of the server's log."""
        return capture_of(work.declared).log_end()

    def reads_from_before(self, work: OnboardingWork, place: int) -> bool:
        """Connect has stored no later place for it."""
        return log_position(work.core_connect.offsets(names.connector_name(work.after))) <= place

    def await_writers(self, work: OnboardingWork) -> Facts:
        """Wait until the publication has the tables, then for the transactions that wrote to them before."""
        ids, database = [table.id for table in work.tables], capture_of(work.declared)
        _await_published(work, database)
        return await_ended(work, lambda: database.writers(ids))

    def stop(self, work: OnboardingWork) -> Facts:
        """The running connector has no task any more; the commit that it has streamed last."""
        began = time.time()
        work.core_connect.stop(names.connector_name(work.after))
        return last_streamed_commit(work, began)

    def temporary_config(self, work: OnboardingWork) -> dict[str, str]:
        """Its rows carry the commit of the stop in a header."""
        return temporary_config(work.after, work.tables, anchor=work.state.fact("stop", "anchor"))

    def clear_leftovers(self, work: OnboardingWork) -> Facts:
        """Publication and slot are gone."""
        database = capture_of(work.declared)
        slot = database.drop_slot(names.temporary(names.slot_name(work.after)))
        database.drop_publication(names.temporary(names.publication_name(work.after)))
        return {"slot_dropped": slot}

    def sees(self, snapshot: Any, origin: Mapping[str, Any]) -> bool:
        """Whether the snapshot sees the event's transaction (`txId`)."""
        return bool(snapshot.sees(int(origin["txId"])))


def capture_of(source: CapturedSource) -> PostgresCapture:
    """The database of a source of this kind."""
    return PostgresCapture(expect(source.database, Database))


def last_streamed_commit(work: OnboardingWork, began: float) -> Facts:
    """The commit that the stopped connector has streamed last. Raises RefusalError: it has not streamed anything yet."""
    connect, name = work.core_connect, names.connector_name(work.after)
    offsets = [entry["offset"] for entry in connect.offsets(name) if has_place([entry])]
    if len(offsets) != 1:
        raise RefusalError(
            f"connector {name} has {quantity(len(offsets), 'stored offset')}, expected 1; it has not streamed "
            f"anything yet: cdc onboard "
            f"{work.after.name} --rollback, then let it run, or take route incremental"
        )
    # Before its first streamed commit there is only the place of its own snapshot.
    anchor = int(offsets[0].get("lsn_commit") or offsets[0]["lsn"])
    return {"anchor": anchor, "stopped_at": round(began, 3)}


def _await_published(work: OnboardingWork, database: PostgresCapture) -> None:
    """Wait until the tables are in the publication. Raises RefusalError: when they do not come into it."""
    publication = names.publication_name(work.after)
    ids = {table.id for table in work.tables}
    until = time.monotonic() + _PUBLISHED_DEADLINE_SECONDS
    while not ids <= (published := database.publication_tables(publication)):
        if time.monotonic() > until:
            missing = ", ".join(str(table) for table in sorted(ids - published))
            raise RefusalError(
                f"{missing} did not come into publication {publication} at {database.place}; add by hand: "
                f"ALTER PUBLICATION {publication} ADD TABLE {missing}; then {work.resume}"
            )
        time.sleep(0.2)
