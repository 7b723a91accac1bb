"""A PostgreSQL connector that is taken over: slot, publication, tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_assets.capture.adoption.running_connector import FoundAtSource, RunningConnector, handling_modes, tables_of_lists
from cdc_assets.clients.databases.postgresql_capture import PostgresCapture
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.record_forms import ValueForms
from cdc_assets.registry.source_declaration import CapturedSource
from spark.record_formats import DEBEZIUM_UNAVAILABLE

_MODES = {
    "decimal": "decimal.handling.mode",
    "temporal": "time.precision.mode",
    "binary": "binary.handling.mode",
    "interval": "interval.handling.mode",
    "hstore": "hstore.handling.mode",
}
_SLOT = """
SELECT database, plugin, active, confirmed_flush_lsn::text, wal_status FROM pg_replication_slots WHERE slot_name = %s
"""
_PUBLICATION = "SELECT puballtables, pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = %s"


class PostgresAdoption:
    """What `cdc adopt` reads of a PostgreSQL source (`running_connector.AdoptionKind`)."""

    def database(self, running: RunningConnector, password: Mapping[str, Any]) -> dict[str, Any]:
        """Where the connector finds it."""
        config = running.config
        block = {
            "kind": "postgresql",
            "host": config.get("database.hostname", ""),
            "port": int(running.setting("database.port") or 5432),
            "dbname": config.get("database.dbname", ""),
            "user": config.get("database.user", ""),
            "password": dict(password),
        }
        # Ours leaves it out only where that is what holds anyhow.
        if mode := config.get("database.sslmode"):
            block["sslmode"] = mode
        if root := config.get("database.sslrootcert"):
            block["sslrootcert"] = root
        return block

    def capture(self, running: RunningConnector) -> dict[str, Any]:
        """Slot, publication, forms of values, and the text for unchanged ones."""
        values: dict[str, str] = handling_modes(running, _MODES, ValueForms().model_dump())
        if running.setting("include.unknown.datatypes") != "true":
            values["unknown"] = "omit"
        block = {
            "slot": running.setting("slot.name"),
            "publication": running.setting("publication.name"),
            # Kept for good: records of before tell no text of their own, whatever the connector sends later.
            "unchanged_text": running.setting("unavailable.value.placeholder") or DEBEZIUM_UNAVAILABLE,
        }
        return {**block, **({"values": values} if values else {})}

    def look(self, running: RunningConnector, source: CapturedSource) -> FoundAtSource:
        """Its slot, which must be there, its publication, and the published tables that its lists take.
        Raises RefusalError: the slot or the publication is not there, or takes no table."""
        database = PostgresCapture(expect(source.database, Database))
        slot, publication = str(running.setting("slot.name")), str(running.setting("publication.name"))
        with database.connection() as connection:
            at_slot = connection.execute(_SLOT, [slot]).fetchone()
            published = connection.execute(_PUBLICATION, [publication]).fetchone()
        where = f"connector {running.name} names {{}}, and the server at {database.place} has none of that name"
        if at_slot is None:
            raise RefusalError(f"{where.format(f'slot {slot}')}: is this its server? SELECT * FROM pg_replication_slots")
        if published is None:
            raise RefusalError(f"{where.format(f'publication {publication}')}: SELECT * FROM pg_publication")
        tables = tables_of_lists(running, database.publication_tables(publication))
        if not tables:
            raise RefusalError(
                f"publication {publication} at {database.place} has no table in the lists of connector {running.name}"
            )
        catalogue = database.tables(tables)
        return FoundAtSource(
            tables=tables,
            keyless=[table for table, about in catalogue.items() if not about.primary_key],
            facts=_facts(slot, publication, at_slot, published),
            notes=_notes(publication, published),
        )


def _facts(slot: str, publication: str, at_slot: Any, published: Any) -> dict[str, Any]:
    return {
        "slot": {
            "name": slot,
            "database": at_slot[0],
            "plugin": at_slot[1],
            "active": at_slot[2],
            "confirmed": at_slot[3],
            "log": at_slot[4],
        },
        "publication": {"name": publication, "all_tables": published[0]},
    }


def _notes(publication: str, published: Any) -> list[str]:
    lacks = [
        what
        for what, is_published in zip(("INSERT", "UPDATE", "DELETE", "TRUNCATE"), published[1:], strict=True)
        if not is_published
    ]
    if not lacks:
        return []
    return [
        f"publication {publication} does not tell {', '.join(lacks)}: silver will not be the source; ALTER PUBLICATION mends it"
    ]
