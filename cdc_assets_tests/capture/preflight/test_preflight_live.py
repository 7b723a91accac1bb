"""Every fault is planted in a real PostgreSQL, found by name, and gone once its own statement has run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import psycopg
import pytest
from typer.testing import CliRunner

from cdc_assets.capture.connectors.postgresql_connector import capture_config
from cdc_assets.capture.incarnations.server_facts import Memory
from cdc_assets.capture.incarnations.server_verdict import note_server
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import ServiceError
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import NAME

TABLE = "odd.We'ird"


@pytest.fixture(scope="module")
def cdc(make_cdc: Callable[[str], Cdc]) -> Iterator[Cdc]:
    cdc = make_cdc("flight")
    with cdc.live.connection() as connection:
        connection.execute("CREATE SCHEMA odd")
        connection.execute('CREATE TABLE odd."We\'ird" (id int PRIMARY KEY, v text)')
    cdc.declare(f'"{TABLE}"')
    yield cdc
    with cdc.live.connection() as connection:
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'cdc_flight'")
        connection.execute("DROP PUBLICATION IF EXISTS cdc_flight")


@pytest.fixture
def database(cdc: Cdc) -> Iterator[psycopg.Connection]:
    with cdc.live.connection() as connection:
        yield connection


def found(cdc: Cdc, check: str) -> dict[str, object]:
    """The worst finding of this rule; the exit code says whether anything failed."""
    result = CliRunner().invoke(app, ["preflight", "flight", "-o", "json"])
    (report,) = json.loads(result.stdout)
    assert result.exit_code == (0 if report["ok"] else 1)
    assert report["ok"] == all(f["level"] != "fail" for f in report["findings"])
    return next(f for f in report["findings"] if f["check"] == check)


def test_a_source_that_is_ready(cdc: Cdc) -> None:
    (report,) = cdc.json("preflight", "flight")
    assert {f["level"] for f in report["findings"]} == {"ok"}
    assert "0 warnings, 0 failures" in cdc("preflight", "flight")


def test_a_column_that_debezium_loses_values_of(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute("CREATE DOMAIN odd.pos AS int")
    database.execute('ALTER TABLE odd."We\'ird" ADD many odd.pos[]')
    finding = found(cdc, "columns")
    assert (finding["level"], finding["subject"]) == ("fail", TABLE)
    assert "column 'many' has type odd.pos[]: Debezium loses arrays with a NULL element (sent as NULL)" in str(finding["message"])
    database.execute('ALTER TABLE odd."We\'ird" DROP many')


def test_a_key_that_is_not_in_the_log(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute('ALTER TABLE odd."We\'ird" REPLICA IDENTITY NOTHING')
    finding = found(cdc, "replica_identity")
    assert (finding["level"], finding["mend"]) == ("fail", 'ALTER TABLE "odd"."We\'ird" REPLICA IDENTITY DEFAULT')
    cdc("preflight", "flight", "--fix", "--dry-run", code=1)
    assert found(cdc, "replica_identity")["level"] == "fail"
    cdc("preflight", "flight", "--fix")
    assert found(cdc, "replica_identity")["level"] == "ok"


def test_a_table_without_key_would_break_the_application(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute('ALTER TABLE odd."We\'ird" DROP CONSTRAINT "We\'ird_pkey"')
    assert found(cdc, "replica_identity")["level"] == "warn"
    database.execute('INSERT INTO odd."We\'ird" VALUES (1)')
    database.execute('UPDATE odd."We\'ird" SET v = 1')
    database.execute("SELECT pg_stat_force_next_flush()")
    database.execute('CREATE PUBLICATION cdc_flight FOR TABLE odd."We\'ird"')
    # What the finding says is true:
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="does not have a replica identity"):
        database.execute('UPDATE odd."We\'ird" SET v = 2')
    finding = found(cdc, "replica_identity")
    assert (finding["level"], finding["safe"]) == ("fail", True)
    cdc("preflight", "flight", "--fix")
    database.execute('UPDATE odd."We\'ird" SET v = 2')
    database.execute("DROP PUBLICATION cdc_flight")
    database.execute('ALTER TABLE odd."We\'ird" ADD PRIMARY KEY (id), REPLICA IDENTITY DEFAULT')


def test_an_identity_without_the_key_loses_deletes(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute('ALTER TABLE odd."We\'ird" ADD code text NOT NULL DEFAULT 1 UNIQUE')
    database.execute('ALTER TABLE odd."We\'ird" REPLICA IDENTITY USING INDEX "We\'ird_code_key"')
    finding = found(cdc, "identity_columns")
    assert (finding["level"], finding["mend"]) == ("fail", 'ALTER TABLE "odd"."We\'ird" REPLICA IDENTITY DEFAULT')
    cdc("preflight", "flight", "--fix")
    (report,) = cdc.json("preflight", "flight")
    assert report["ok"]
    database.execute('ALTER TABLE odd."We\'ird" DROP code')


def test_an_identity_whose_index_was_dropped_breaks_the_application(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute('CREATE UNIQUE INDEX dropped ON odd."We\'ird" (id)')
    database.execute('ALTER TABLE odd."We\'ird" REPLICA IDENTITY USING INDEX dropped')
    assert found(cdc, "replica_identity")["level"] == "ok"
    database.execute("DROP INDEX odd.dropped")
    database.execute('CREATE PUBLICATION cdc_flight FOR TABLE odd."We\'ird"')
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="does not have a replica identity"):
        database.execute('UPDATE odd."We\'ird" SET v = 3')
    finding = found(cdc, "replica_identity")
    assert (finding["level"], finding["mend"]) == ("fail", 'ALTER TABLE "odd"."We\'ird" REPLICA IDENTITY DEFAULT')
    assert "has lost the index of its replica identity" in str(finding["message"])
    cdc("preflight", "flight", "--fix")
    database.execute('UPDATE odd."We\'ird" SET v = 3')
    database.execute("DROP PUBLICATION cdc_flight")


def test_partitions_and_children(cdc: Cdc, database: psycopg.Connection) -> None:
    """A publication of somebody else sends changes under the partitions' names; a child is published with its parent."""
    database.execute("CREATE TABLE odd.parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE odd.parted_1 PARTITION OF odd.parted FOR VALUES FROM (0) TO (9)")
    database.execute("CREATE TABLE odd.parent (id int PRIMARY KEY); CREATE TABLE odd.child () INHERITS (odd.parent)")
    database.execute("CREATE PUBLICATION cdc_flight FOR TABLE odd.parted, odd.parent")
    cdc.declare("odd.parted", "odd.parent")
    try:
        finding = found(cdc, "publication_root")
        mend = 'ALTER PUBLICATION "cdc_flight" SET (publish_via_partition_root = true)'
        assert (finding["level"], finding["mend"], finding["safe"]) == ("fail", mend, True)
        assert found(cdc, "inheritance")["level"] == "fail"
        cdc.declare("odd.parted", "odd.parent, only: true")
        cdc("preflight", "flight", "--fix")
        (report,) = cdc.json("preflight", "flight")
        assert {f["level"] for f in report["findings"]} == {"ok"}, report["findings"]
    finally:
        database.execute("DROP PUBLICATION cdc_flight; DROP TABLE odd.parted; DROP TABLE odd.parent CASCADE")
        cdc.declare(f'"{TABLE}"')


def test_columns_keys_and_hidden_rows(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute(
        'CREATE TABLE odd.cols (id int PRIMARY KEY DEFERRABLE, a int, "A" int, _cdc_op text, b int, _valid_from int)'
    )
    database.execute("INSERT INTO odd.cols (id, b) VALUES (1, 1)")
    cdc.declare("odd.cols, keys: [b, nothing]")
    try:
        (report,) = json.loads(CliRunner().invoke(app, ["preflight", "flight", "-o", "json"]).stdout)
        told = [f"{f['level']} {f['check']}: {f['message']}" for f in report["findings"] if f["level"] != "ok"]
        assert [
            text for text in told if text.startswith("fail columns: silver has columns of its own called _cdc_op, _valid_from")
        ]
        assert [text for text in told if text.startswith("fail columns: columns 'a' and 'A' differ only by case")]
        assert [text for text in told if text.startswith("fail keys: keys name nothing, and it has no such column")]
        # A deferrable key identifies no row; PostgreSQL says so once the table is published.
        assert [text for text in told if "replica_identity: has no key and no replica identity" in text]
        database.execute("CREATE PUBLICATION cdc_flight FOR TABLE odd.cols")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="does not have a replica identity"):
            database.execute("UPDATE odd.cols SET b = 2")
        cdc.declare("odd.cols, keys: [b]")
        finding = found(cdc, "keys")
        mend = 'ALTER TABLE "odd"."cols" ALTER COLUMN "b" SET NOT NULL; CREATE UNIQUE INDEX ON "odd"."cols" ("b")'
        assert (finding["level"], finding["mend"]) == ("warn", mend)
        database.execute(str(finding["mend"]))
        assert "keys" not in {f["check"] for f in json.loads(preflight_json())["findings"]}
    finally:
        database.execute("DROP PUBLICATION IF EXISTS cdc_flight; DROP TABLE odd.cols")
        cdc.declare(f'"{TABLE}"')


def preflight_json() -> str:
    """The one report, whatever it says."""
    return json.dumps(json.loads(CliRunner().invoke(app, ["preflight", "flight", "-o", "json"]).stdout)[0])


def test_publication_against_the_registry(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute("CREATE TABLE odd.stranger (id int PRIMARY KEY)")
    database.execute("CREATE PUBLICATION cdc_flight FOR TABLE odd.stranger WITH (publish = 'insert')")
    finding = found(cdc, "publication")
    assert (finding["level"], finding["safe"]) == ("fail", True)
    assert "odd.We'ird" in str(finding["message"])
    assert found(cdc, "publication_operations")["level"] == "fail"
    assert found(cdc, "publication_extra")["mend"] == "take them in: cdc onboard flight odd.stranger"
    cdc("preflight", "flight", "--fix")
    rows = database.execute("SELECT tablename FROM pg_publication_tables WHERE pubname = 'cdc_flight'").fetchall()
    assert {row[0] for row in rows} == {"We'ird", "stranger"}
    assert found(cdc, "publication")["level"] == "ok"
    assert found(cdc, "publication_extra")["level"] == "warn"


def test_slots_of_others_and_invalidated_ones(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute("SELECT pg_create_physical_replication_slot('cdc_flight')")
    assert "slot_type is physical, not logical" in str(found(cdc, "slot")["message"])
    database.execute("SELECT pg_drop_replication_slot('cdc_flight')")
    database.execute("SELECT pg_create_logical_replication_slot('cdc_flight', 'pgoutput')")
    assert found(cdc, "slot")["level"] == "ok"
    try:
        _invalidate(database)
        finding = found(cdc, "slot")
        assert finding["level"] == "fail"
        assert "invalidated (wal_removed)" in str(finding["message"])
        assert "pg_drop_replication_slot('cdc_flight')" in str(finding["mend"])
    finally:
        database.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        database.execute("SELECT pg_reload_conf()")
        database.execute("SELECT pg_drop_replication_slot('cdc_flight')")


def test_a_new_slot_waits_for_what_is_open(cdc: Cdc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_assets.capture.preflight.postgresql_catalogue.OPEN_SECONDS", 0)
    with cdc.live.postgres.connect("postgres", autocommit=False) as elsewhere:
        elsewhere.execute("SET application_name = 'nightly'")
        elsewhere.execute("SELECT pg_current_xact_id()")
        elsewhere.execute("PREPARE TRANSACTION 'left open'")
        elsewhere.execute("SELECT pg_current_xact_id()")
        message = str(found(cdc, "slot_creation")["message"])
        assert "(nightly, open since " in message
        assert "prepared transaction 'left open' of " in message
        with cdc.live.settings():
            config = capture_config(cdc.live.source([TABLE]))
        cdc.live.connect.create(config["name"], config)
        until(lambda: (status := cdc.live.connect.status(config["name"])) is not None and status.state == "RUNNING")
        with pytest.raises(ServiceError, match=r"RUNNING, tasks \(\); no task has said anything yet: .* cdc preflight"):
            cdc.live.connect.wait_running(config["name"], deadline=3)
        elsewhere.execute("COMMIT")
    with cdc.live.postgres.connect("postgres") as elsewhere:
        elsewhere.execute("ROLLBACK PREPARED 'left open'")
    cdc.live.connect.wait_running(config["name"])
    cdc.live.connect.delete(config["name"])


def test_preflight_writes_nothing(cdc: Cdc, database: psycopg.Connection) -> None:
    """Neither at the server, which other homes look at as well, nor here; what looks with a rhythm notes the server."""
    cdc.live.capture([TABLE])
    cdc.live.delivered()

    def noted() -> tuple[object, object]:
        there = database.execute("SELECT to_regclass('cdc_assets.witness_flight')").fetchone()
        known = Memory.of("flight").known
        return database.execute("TABLE cdc_assets.witness_flight").fetchall() if there != (None,) else None, known

    for _ in range(2):
        assert found(cdc, "incarnation")["level"] == "ok"
        assert noted() == (None, None)
    note_server(Chain(Platform(), cdc.live.source([TABLE])))
    rows, known = noted()
    assert known is not None
    assert rows == [(known.home, "1")]  # type: ignore[attr-defined]
    assert found(cdc, "incarnation")["level"] == "ok"
    assert noted() == (rows, known)
    cdc.live.connect.delete("flight-capture")


def test_a_slot_that_is_gone_under_a_connector(cdc: Cdc, database: psycopg.Connection) -> None:
    with cdc.live.settings():
        cdc.live.capture([TABLE])
    cdc.live.delivered()
    cdc.live.connect.stop("flight-capture")
    assert cdc.live.connect.offsets("flight-capture")
    assert found(cdc, "slot")["level"] == "ok"
    database.execute("SELECT pg_drop_replication_slot('cdc_flight')")
    finding = found(cdc, "slot")
    assert finding["level"] == "fail"
    assert "every change since the connector's last offset" in str(finding["message"])
    assert "cdc repair source flight" in str(finding["mend"])
    cdc.live.connect.delete("flight-capture")


def test_privileges_of_a_plain_role(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute("ALTER ROLE live NOSUPERUSER NOREPLICATION")
    with cdc.live.postgres.connect(NAME) as admin:
        admin.execute("CREATE ROLE other_owner")
        admin.execute('ALTER TABLE odd."We\'ird" OWNER TO other_owner')
        admin.execute("ALTER SCHEMA odd OWNER TO other_owner")
    try:
        assert found(cdc, "role")["mend"] == f'ALTER ROLE "{NAME}" REPLICATION'
        (report,) = cdc.json("preflight", "flight", code=1)
        privileges = [f["mend"] for f in report["findings"] if f["check"] == "privileges"]
        assert privileges == [f'GRANT USAGE ON SCHEMA "odd" TO "{NAME}"', f'GRANT SELECT ON "odd"."We\'ird" TO "{NAME}"']
        with cdc.live.postgres.connect(NAME) as admin:
            admin.execute(f'GRANT USAGE ON SCHEMA odd TO {NAME}; GRANT SELECT ON odd."We\'ird" TO {NAME}')
            admin.execute('ALTER TABLE odd."We\'ird" ENABLE ROW LEVEL SECURITY')
        finding = found(cdc, "row_security")
        assert (finding["level"], finding["mend"]) == ("fail", f'ALTER ROLE "{NAME}" BYPASSRLS')
    finally:
        with cdc.live.postgres.connect(NAME) as admin:
            admin.execute(f"ALTER ROLE {NAME} SUPERUSER REPLICATION")
            admin.execute(f"REASSIGN OWNED BY other_owner TO {NAME}")
            admin.execute('ALTER TABLE odd."We\'ird" DISABLE ROW LEVEL SECURITY')
            admin.execute("DROP ROLE other_owner")


def test_a_table_that_is_missing_or_unlogged(cdc: Cdc, database: psycopg.Connection) -> None:
    database.execute("DROP PUBLICATION IF EXISTS cdc_flight")
    database.execute('ALTER TABLE odd."We\'ird" SET UNLOGGED')
    assert found(cdc, "logged")["mend"] == 'ALTER TABLE "odd"."We\'ird" SET LOGGED'
    database.execute('ALTER TABLE odd."We\'ird" RENAME TO gone')
    assert "does not exist" in str(found(cdc, "table")["message"])


def _invalidate(database: psycopg.Connection) -> None:
    database.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    database.execute("SELECT pg_reload_conf()")
    for _ in range(4):
        database.execute("SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1000000))")
        database.execute("SELECT pg_switch_wal()")

    def lost() -> bool:
        # The checkpointer may begin before it has heard of the setting.
        database.execute("CHECKPOINT")
        slot = "SELECT FROM pg_replication_slots WHERE slot_name = 'cdc_flight' AND invalidation_reason IS NOT NULL"
        return database.execute(slot).fetchone() is not None

    until(lost)


def test_connects_own_topics(cdc: Cdc, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(cdc, "connect_topics")["level"] == "ok"
    kafka, topic = KafkaCluster(cdc.lake.bootstrap), "_lake-connect-status"
    kafka._apply_config(topic, {"cleanup.policy": "delete"})
    finding = found(cdc, "connect_topics")
    assert (finding["level"], finding["subject"]) == ("fail", topic)
    assert f"--topic {topic} --add-config cleanup.policy=compact" in str(finding["mend"])
    kafka._apply_config(topic, {"cleanup.policy": "compact"})
    assert found(cdc, "connect_topics")["level"] == "ok"
    monkeypatch.setenv("CDC_LAKE_CONNECT_TOPICS", "_lake-connect-configs,nobody,_lake-connect-status")
    finding = found(cdc, "connect_topics")
    assert (finding["level"], finding["subject"]) == ("fail", "nobody")
