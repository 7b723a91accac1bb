"""The steps of an onboarding on a live source: the publication trap, what a crash leaves, what is taken back."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cdc_assets.capture.connectors.apply_connector import apply_connector
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.connectors.postgresql_connector import capture_config, temporary_config
from cdc_assets.capture.connectors.setting_overrides import settle, with_public_text
from cdc_assets.capture.onboarding import onboarding_run, onboarding_state, snapshot
from cdc_assets.capture.onboarding.onboarding_state import Journal, find_source
from cdc_assets.capture.preflight.inspection import preflight
from cdc_assets.cli.verbs.source_verbs import onboard
from cdc_assets.clients.databases.postgresql_capture import PostgresCapture
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.jobs_on_demand import build_onboarding_jobs
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.errors import DatabaseError, RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.onboarding.drive import cdc, kill_at
from cdc_assets_tests.support.onboarding.ground import Ground, Writers, ground

SOURCE = "depot"


@pytest.fixture(scope="module")
def depot(live: LiveSource, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(live, tmp_path_factory.mktemp("depot") / "sources", SOURCE) as own:
        yield own


def last_values(own: Ground, table: str, *, rows_first: bool = False) -> dict[int, str]:
    """What the topic leaves of each key, in its own order; or each row of a temporary connector before all that was streamed."""
    found: dict[int, str] = {}
    records = [r for r in own.live.delivered()[f"{SOURCE}.public.{table}"][0] if r.value is not None]
    events = [(json.loads(r.value or ""), json.loads(r.key or "{}")["id"]) for r in records]
    for event, key in sorted(events, key=lambda one: one[0]["op"] != "r") if rows_first else events:
        found.pop(key, None)
        if event["op"] != "d":
            found[key] = event["after"]["v"]
    return found


def published(source: str) -> set[str]:
    return {table.table for table in PostgresCapture(find_source(source).database).publication_tables(f"cdc_{source}")}


def test_a_transaction_from_before_the_publication_is_awaited(depot: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its changes are never decoded, and a snapshot taken before its end would not have them either."""
    monkeypatch.setattr(onboarding_state, "_TOLD_EVERY_SECONDS", 0.0)
    said: list[str] = []
    depot.create("depot_trap", 20)
    with ThreadPoolExecutor(1) as pool, depot.live.connection(autocommit=False) as early:
        early.execute("INSERT INTO depot_trap VALUES (1001, 'written before the table was published')")
        early.execute("UPDATE depot_trap SET v = 'changed before the table was published' WHERE id = 2")
        onboarding_run.begin(SOURCE, ["public.depot_trap"], "incremental")
        onboarding = pool.submit(onboarding_run.go_on, Platform(), SOURCE, said.append)

        def waited(times: int) -> bool:
            assert not onboarding.done(), onboarding.result()
            return sum("waiting for " in text for text in said) >= times

        until(lambda: waited(1))
        with depot.live.connection() as other:  # a later writer is neither held up nor waited for
            other.execute("INSERT INTO depot_trap VALUES (1002, 'written afterwards')")
        until(lambda: waited(6))
        assert Journal.of(SOURCE).running.current == "writers"  # type: ignore[union-attr]
        early.commit()
        # Other connectors of this server write as well.
        assert onboarding.result().steps["writers"]["waited_for"] >= 1
    found = last_values(depot, "depot_trap")
    assert found == {row["id"]: row["v"] for row in depot.rows("depot_trap")}
    assert found[1001].startswith("written before")


def test_a_row_read_while_a_commit_was_not_visible_yet_is_read_again(depot: Ground) -> None:
    """A commit that waits for a synchronous standby is streamed, and nobody sees it: the snapshot's row is older."""
    depot.create("depot_unseen", 20)
    with depot.live.connection() as other, depot.live.connection() as late, ThreadPoolExecutor(1) as pool:
        try:
            for setting in ("synchronous_standby_names = 'nobody'", "synchronous_commit = 'local'"):
                other.execute(f"ALTER SYSTEM SET {setting}")
            other.execute("SELECT pg_reload_conf()")
            late.execute("SET synchronous_commit = 'on'")
            onboarding_run.begin(SOURCE, ["public.depot_unseen"], "incremental")
            for step in ("preflight", "registry", "topics", "mirror", "signal-table", "connector", "writers"):
                onboarding_run.run_step(Platform(), SOURCE, step, lambda _: None)
            waits = pool.submit(late.execute, "UPDATE depot_unseen SET v = 'not seen yet' WHERE id = 2")
            process = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            until(lambda: other.execute(process).fetchone() is not None)

            def seen(text: str) -> None:
                if "not visible yet: 1 of public.depot_unseen" in text:
                    other.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")

            steps = onboarding_run.go_on(Platform(), SOURCE, seen).steps
            waits.result(120)
        finally:
            for setting in ("synchronous_standby_names", "synchronous_commit"):
                other.execute(f"ALTER SYSTEM RESET {setting}")
            other.execute("SELECT pg_reload_conf()")
    assert steps["verify"]["read_again"] == 1
    found = last_values(depot, "depot_unseen")
    assert found == {row["id"]: row["v"] for row in depot.rows("depot_unseen")}
    assert found[2] == "not seen yet"


def test_killed_and_rolled_back_is_as_before(depot: Ground) -> None:
    depot.create("depot_back", 20)
    text, config = depot.file.read_text(), depot.live.connect.config(f"{SOURCE}-capture")
    first = cdc("onboard", SOURCE, "public.depot_back", "--route", "temporary")
    assert kill_at(first, SOURCE, "snapshot", after=0.1)
    # Who looks meanwhile, with a registry of before, is not told to take the table out of the publication.
    extra = [f for f in preflight(Chain(Platform(), find_source(SOURCE))).findings if f.check == "publication_extra"]
    assert extra == []
    with pytest.raises(RefusalError, match="--resume, or --rollback"):
        onboarding_run.begin(SOURCE, ["public.depot_old2"], "incremental")
    assert onboarding_run.roll_back(Platform(), SOURCE, lambda _: None).state == "rolled back"
    assert depot.file.read_text() == text
    assert depot.live.connect.config(f"{SOURCE}-capture") == config
    assert f"{SOURCE}-capture-onboard" not in depot.live.connect.connectors()
    assert "depot_back" not in published(SOURCE)
    with depot.live.connection() as connection:
        slots = connection.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'cdc_depot%'").fetchall()
    assert slots == [("cdc_depot",)]


@pytest.mark.all
def test_a_table_that_was_in_stays_in_when_its_second_reading_is_taken_back(depot: Ground) -> None:
    """So is one whose repair has failed: taken out of connector and publication, its changes would be in no event."""
    depot.create("depot_kept", 20)
    onboarding_run.begin(SOURCE, ["public.depot_kept"], "incremental")
    onboarding_run.go_on(Platform(), SOURCE, lambda _: None)
    text, connect = depot.file.read_text(), depot.live.connect
    configs = [connect.config(f"{SOURCE}-{role}") for role in ("capture", "mirror")]
    onboarding_run.begin(SOURCE, ["public.depot_kept", "public.depot_old"], "incremental", again=True)
    for step in ("preflight", "registry", "topics", "mirror", "signal-table", "connector", "writers"):
        onboarding_run.run_step(Platform(), SOURCE, step, lambda _: None)
    PostgresCapture(find_source(SOURCE).database).send_signal(TableId("cdc_assets", f"signal_{SOURCE}"), "x", "log", "{}")
    onboarding_run.roll_back(Platform(), SOURCE, lambda _: None)
    assert (depot.file.read_text(), [connect.config(f"{SOURCE}-{role}") for role in ("capture", "mirror")]) == (text, configs)
    assert {"depot_kept", "depot_old"} <= published(SOURCE)
    with depot.live.connection() as connection:
        assert connection.execute(f"SELECT FROM cdc_assets.signal_{SOURCE}").fetchall() == []
        connection.execute("UPDATE depot_kept SET v = 'changed after' WHERE id = 2")
    assert last_values(depot, "depot_kept") == {row["id"]: row["v"] for row in depot.rows("depot_kept")}


@pytest.mark.all
def test_a_connector_that_somebody_deletes_meanwhile_is_told_and_rolled_back(depot: Ground) -> None:
    depot.create("depot_orphan", 5)
    text, name, connect = depot.file.read_text(), f"{SOURCE}-capture", depot.live.connect
    config = connect.config(name)
    assert config is not None
    onboarding_run.begin(SOURCE, ["public.depot_orphan"], "incremental")
    for step in ("preflight", "registry", "topics", "mirror", "signal-table", "connector", "writers"):
        onboarding_run.run_step(Platform(), SOURCE, step, lambda _: None)
    connect.stop(name)
    with pytest.raises(
        RefusalError, match=f"{name} is STOPPED; cdc resume {name}, then cdc onboard depot --resume, or --rollback"
    ):
        onboarding_run.go_on(Platform(), SOURCE, lambda _: None)
    connect.delete(name)
    with pytest.raises(
        RefusalError, match=f"{name} does not exist any more; cdc apply depot, then cdc onboard depot --resume, or --rollback"
    ):
        onboarding_run.go_on(Platform(), SOURCE, lambda _: None)
    onboarding_run.roll_back(Platform(), SOURCE, lambda _: None)
    assert depot.file.read_text() == text
    assert "depot_orphan" not in published(SOURCE)
    apply_connector(connect, config, resume_offsets=True)


@pytest.mark.all
def test_a_blocking_snapshot_that_takes_long_is_asked_for_once(depot: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further signal is one more reading, with all tables standing still."""
    monkeypatch.setattr(snapshot, "_SILENCE_SECONDS", 1.0)
    depot.create("depot_long", 30)
    said: list[str] = []
    onboarding_run.begin(SOURCE, ["public.depot_long"], "blocking")
    for step in ("preflight", "registry", "topics", "mirror", "signal-table", "connector", "writers"):
        onboarding_run.run_step(Platform(), SOURCE, step, said.append)
    with ThreadPoolExecutor(1) as pool, depot.live.connection(autocommit=False) as other:
        other.execute("LOCK TABLE depot_long IN ACCESS EXCLUSIVE MODE")
        done = pool.submit(onboarding_run.go_on, Platform(), SOURCE, said.append)
        until(lambda: done.done() or sum(text.startswith("no word from depot-capture for") for text in said) > 2)
        other.rollback()
        assert done.result().steps["snapshot"]["signals"] == 1
    rows = [r for r in depot.live.delivered()[f"{SOURCE}.public.depot_long"][0] if '"op":"r"' in (r.value or "")]
    assert len(rows) == len(depot.rows("depot_long"))


def test_what_cannot_be_taken_in_changes_nothing(depot: Ground) -> None:
    with depot.live.connection() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS depot_keyless (v text)")
        connection.execute('CREATE TABLE IF NOT EXISTS "depot b.c" (id int PRIMARY KEY)')
    before = depot.file.read_text()
    onboarding_run.begin(SOURCE, ["public.depot_keyless", "public.depot_absent", 'public."depot b.c"'], "incremental")
    with pytest.raises(RefusalError) as refused:
        onboarding_run.go_on(Platform(), SOURCE, lambda _: None)
    assert "public.depot_keyless has no primary key" in str(refused.value)
    assert "there is no table public.depot_absent" in str(refused.value)
    assert 'public."depot b.c": no signal can name it' in str(refused.value)
    assert depot.file.read_text() == before
    onboarding_run.roll_back(Platform(), SOURCE, lambda _: None)


def test_a_table_beside_it_that_could_not_be_read_is_not_asked(depot: Ground) -> None:
    """A row of before Christ in a table of the source keeps no other one out."""
    with depot.live.connection() as connection:
        connection.execute("CREATE TABLE depot_ides (id int PRIMARY KEY, at date)")
        connection.execute("INSERT INTO depot_ides VALUES (1, '0044-03-15 BC')")
    depot.create("depot_beside", 1)
    before = depot.file.read_text()
    depot.file.write_text(before + "  - {name: public.depot_ides}\n")
    try:
        onboarding_run.judge(Platform(), SOURCE, ["public.depot_beside"], "temporary")
        with pytest.raises(DatabaseError, match=r"public\.depot_ides column 'at'"):
            onboarding_run.judge(Platform(), SOURCE, ["public.depot_ides"], "temporary")
    finally:
        depot.file.write_text(before)


def test_offboarded_by_the_job(depot: Ground) -> None:
    depot.create("depot_gone", 5)
    onboarding_run.begin(SOURCE, ["public.depot_gone"], "incremental")
    onboarding_run.go_on(Platform(), SOURCE, lambda _: None)
    assert "depot_gone" in published(SOURCE)
    job = next(job for job in build_onboarding_jobs() if job.name == "offboard")
    config = {"ops": {"begin": {"config": {"source": SOURCE, "tables": ["public.depot_gone"]}}}}
    done = job.execute_in_process(run_config=config, resources={"platform": PlatformResource()})
    (output,) = done.filter_events(lambda event: event.is_successful_output and event.node_name == "registry")
    assert output.step_output_data.metadata["cdc/removed"].value == "['public.depot_gone']"
    assert "depot_gone" not in depot.file.read_text()
    running = depot.live.connect.config(f"{SOURCE}-capture")
    assert running == settle(capture_config(find_source(SOURCE)), running)
    assert "depot_gone" not in published(SOURCE)
    assert "public.depot_gone" not in Journal.of(SOURCE).finished


def test_the_plan_is_printed_and_nothing_is_done(depot: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RefusalError, match=r"there is no table public\.depot_x; create it"):
        onboard(SOURCE, ["public.depot_x"], "temporary", dry_run=True, output="json")
    depot.create("depot_x", 1)
    onboard(SOURCE, ["public.depot_x"], "temporary", dry_run=True, output="json")
    names = [step["step"] for step in json.loads(capsys.readouterr().out)]
    assert names.index("stop") < names.index("go-on") < names.index("writers") < names.index("snapshot") < names.index("remove")
    assert Journal.of(SOURCE).running is None


@pytest.mark.all
def test_what_git_applies_is_watched(depot: Ground, tmp_path: Path) -> None:
    """The test is the operator that applies the commits; a writer's transaction is open across all of it."""
    depot.create("depot_git", 20)
    depot.file.write_text(depot.file.read_text() + "  - {name: public.depot_git}\n")
    command = ("onboard", SOURCE, "public.depot_git", "--watch", "--deployment", written_deployment(tmp_path))
    process, source, connect = cdc(*command), find_source(SOURCE), depot.live.connect
    with depot.live.connection(autocommit=False) as early:
        early.execute("INSERT INTO depot_git VALUES (1001, 'before the table was published')")
        wait_for(process, "topics")
        Platform().core_kafka("core").ensure_topic(
            f"{SOURCE}.public.depot_git", partitions=1, retention_ms=10**8, replication_factor=1
        )
        connect.put_config(f"{SOURCE}-mirror", mirror_config(source))
        wait_for(process, "connector")
        connect.put_config(f"{SOURCE}-capture", with_public_text(capture_config(source)))
        wait_for(process, "writers")
        early.commit()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert [line for line in out.splitlines() if line.startswith("# ")] == [
        "# depot: topics, rights and mirror for public.depot_git",
        "# depot: old and new tables in depot-capture",
    ]
    assert "+++ b/strimzi/connectors/depot-capture.yaml" in out
    assert last_values(depot, "depot_git") == {row["id"]: row["v"] for row in depot.rows("depot_git")}


@pytest.mark.all
def test_what_git_applies_of_the_temporary_route_is_watched(depot: Ground, tmp_path: Path) -> None:
    """The test applies what each printed commit says, while others write."""
    depot.create("depot_patch", 20)
    depot.file.write_text(depot.file.read_text() + "  - {name: public.depot_patch}\n")
    deployment = written_deployment(tmp_path)
    process = cdc("onboard", SOURCE, "public.depot_patch", "--route", "temporary", "--watch", "--deployment", deployment)
    source, connect, capture = find_source(SOURCE), depot.live.connect, f"{SOURCE}-capture"
    with Writers(depot.live, ["depot_patch"], keys=60):
        wait_for(process, "topics")
        topic = f"{SOURCE}.public.depot_patch"
        Platform().core_kafka("core").ensure_topic(topic, partitions=1, retention_ms=10**8, replication_factor=1)
        connect.put_config(f"{SOURCE}-mirror", mirror_config(source))
        wait_for(process, "stop")
        connect.stop(capture)
        wait_for(process, "go-on")
        connect.put_config(capture, with_public_text(capture_config(source)))
        connect.resume(capture)
        wait_for(process, "snapshot")
        process.kill()
        process.wait()
        process = cdc("onboard", SOURCE, "--resume", "--deployment", deployment)
        running = Journal.of(SOURCE).running
        assert running is not None
        anchor = running.fact("stop", "anchor")
        connect.create(f"{capture}-onboard", temporary_config(source, [source.table("depot_patch")], anchor=anchor))
        wait_for(process, "clear")
        connect.stop(f"{capture}-onboard")
        wait_for(process, "remove")
        assert connect.offsets(f"{capture}-onboard") == []
        connect.delete(f"{capture}-onboard")
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    of, alone = "# depot: ", "depot-capture-onboard"
    titles = [line for line in out.splitlines() if line.startswith("# ")]
    assert titles == [f"{of}public.depot_patch alone, by {alone}", f"{of}{alone} stopped", f"{of}{alone} gone"]
    assert f"transforms.anchor.value.literal: '{anchor}'" in out
    with depot.live.connection() as connection:
        assert connection.execute("SELECT FROM pg_replication_slots WHERE slot_name = 'cdc_depot_onboard'").fetchall() == []
    assert last_values(depot, "depot_patch", rows_first=True) == {r["id"]: r["v"] for r in depot.rows("depot_patch")}


def written_deployment(folder: Path) -> str:
    cluster = "{{kafka: {0}, connect: {0}-connect, bootstrap: 'k:9093'}}"
    file = folder / "deployment.yaml"
    file.write_text(f"core: {cluster.format('core')}\nlake: {cluster.format('lake')}\n")
    return str(file)


def wait_for(process: subprocess.Popen[str], step: str) -> None:
    """Until the process is at this step; what it said, when it ended before."""

    def is_there() -> bool:
        assert process.poll() is None, process.communicate()
        running = Journal.of(SOURCE).running
        return running is not None and running.current == step

    until(is_there)
