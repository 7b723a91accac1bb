"""A real streaming standby: no exact moment is taken from it, its rows are, and how far it has replayed is waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.proof.source_sides import RowsNow, standby_of
from cdc_assets.registry.errors import DatabaseError
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.servers.standby import standby
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec

pytestmark = pytest.mark.all

TEXT = RowText(SilverSpec("s", "held", "none", "none", (Column("id", "integer", False), Column("note", "text")), ("id",)))


def test_rows_are_read_from_a_standby(live: LiveSource) -> None:
    source = replace(live, name="standby").source(["public.held"])
    table = source.tables[0].id
    with live.connection() as connection:
        connection.execute("CREATE TABLE held (id int PRIMARY KEY, note text)")
        connection.execute("INSERT INTO held SELECT i, 'note ' || i FROM generate_series(1, 2000) i")
    primary = PostgresDatabase(source.database)  # type: ignore[arg-type]
    with live.settings(), standby(live) as place, live.connection() as writer, live.connection(autocommit=False) as held:
        beside = standby_of(source, place)
        other = beside.database
        beside.await_replay(primary.emit_marker("standby"), 120)
        assert RowsNow(other, 60).digest(table, TEXT, (0, 1)) == RowsNow(primary, 60).digest(table, TEXT, (0, 1))
        with pytest.raises(DatabaseError, match="is a standby"), open_cut(other, statement_timeout=9):
            pass

        # Why not: of a transaction in progress its snapshot says nothing, although it does not see it.
        held.execute("UPDATE held SET note = 'open' WHERE id = 1")
        (running,) = held.execute("SELECT pg_current_xact_id()::text").fetchone() or ()
        writer.execute("UPDATE held SET note = 'done' WHERE id = 2")
        beside.await_replay(primary.emit_marker("standby"), 120)
        seen = "SELECT pg_visible_in_snapshot(%s::text::xid8, pg_current_snapshot()), (SELECT note FROM held WHERE id = 1)"
        with other.connection() as here, primary.connection() as there:
            assert here.execute(seen, [running]).fetchone() == (True, "note 1")
            assert there.execute(seen, [running]).fetchone() == (False, "note 1")

        with other.connection() as replay:
            replay.execute("SELECT pg_wal_replay_pause()")
            writer.execute("UPDATE held SET note = 'late' WHERE id = 3")
            with pytest.raises(DatabaseError, match="bytes short of"):
                beside.await_replay(primary.emit_marker("standby"), 1)
            replay.execute("SELECT pg_wal_replay_resume()")
        with pytest.raises(DatabaseError, match="is no standby"):
            standby_of(source, f"127.0.0.1:{live.postgres.site.ports['postgres']}")
