"""What is slow is waited for, what is dead or hung is started again: a small server, and a real broker on a busy machine."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cdc_assets.stack import lifecycle
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.kafka_broker import KafkaBroker
from cdc_assets.stack.home import Home
from cdc_assets.stack.lifecycle import Watched
from cdc_assets.stack.loopback import assign
from cdc_assets_tests.stack.probe_server import ProbeServer, busy_machine, watching
from cdc_assets_tests.support.lake.jvm import locked_jars
from cdc_assets_tests.support.own_stack import until

pytestmark = pytest.mark.stack


@pytest.fixture
def server(tmp_path: Path) -> ProbeServer:
    return ProbeServer(Site(Home(tmp_path / "home").create(), assign(("probe",), {})))


def process_of(watched: Watched) -> psutil.Process:
    until(lambda: watched.state.health == "healthy")
    return psutil.Process(watched.state.pid)


def fail_probes(server: ProbeServer, watched: Watched, count: int) -> None:
    """Wait until so many more have failed; it fails where the server is ended meanwhile."""
    aim = server.failed_probes + count
    until(lambda: server.failed_probes >= aim or watched.state.restarts > 0)
    assert watched.state.restarts == 0, watched.state.detail


def test_a_stopped_process_goes_on_where_it_was_and_one_that_hangs_for_good_is_ended(server: ProbeServer) -> None:
    server.hung_after = 60
    with watching(server) as watched:
        process = process_of(watched)
        process.suspend()
        fail_probes(server, watched, 7)
        assert (watched.state.pid, watched.state.restarts, process.is_running()) == (process.pid, 0, True), watched.state
        assert watched.state.health == "unhealthy"
        process.resume()
        until(lambda: watched.state.health == "healthy")
        assert (watched.state.pid, watched.state.restarts) == (process.pid, 0)
        server.hung_after = 1
        process.suspend()
        until(lambda: watched.state.restarts == 1)
        assert process_of(watched).pid != process.pid


def test_a_process_that_works_and_does_not_answer_is_not_ended(server: ProbeServer) -> None:
    server.hung_after = 2
    with watching(server) as watched:
        process = process_of(watched)
        work = server.run / "work"
        work.touch()
        with suppress(OSError):
            server.ask("/work", 1.0)
        fail_probes(server, watched, 7)
        work.unlink()
        until(lambda: watched.state.health == "healthy")
        assert (watched.state.pid, watched.state.restarts) == (process.pid, 0)


class Forgetful(ProbeServer):
    """It had something in its memory, which comes back at the second attempt only."""

    recalled = 0

    def recall(self) -> None:
        self.recalled += 1
        assert self.recalled > 1, "the first one finds nothing"


def test_what_a_process_had_in_its_memory_is_recalled_after_each_restart(
    server: ProbeServer, capfd: pytest.CaptureFixture[str]
) -> None:
    forgetful = Forgetful(server.site)
    with watching(forgetful) as watched:
        first = process_of(watched)
        assert forgetful.recalled == 0, "a first start has lost nothing"
        first.kill()
        until(lambda: forgetful.recalled == 1)
        second = process_of(watched)
        assert second.pid != first.pid, "it works without what it lacks"
        until(lambda: "probe, after a restart: AssertionError: the first one finds nothing" in capfd.readouterr().err)
        second.kill()
        until(lambda: forgetful.recalled == 2)
        assert process_of(watched).pid != second.pid
        assert watched.state.restarts == 2
    assert "after a restart" not in capfd.readouterr().err


class AskedThroughAnother(ProbeServer):
    """Its probe waits for somebody else, as the daemon's does for the webserver."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.other_answers, self.waits = threading.Event(), threading.Event()
        self.other_answers.set()

    def probe(self) -> None:
        if not self.other_answers.is_set():
            self.waits.set()
        self.other_answers.wait(90)
        super().probe()


def test_a_dead_process_is_started_again_while_its_probe_still_waits(server: ProbeServer) -> None:
    asked = AskedThroughAnother(server.site)
    with watching(asked) as watched:
        process = process_of(watched)
        asked.other_answers.clear()
        until(asked.waits.is_set)
        process.kill()
        until(lambda: watched.state.restarts == 1, seconds=45)
        asked.other_answers.set()
        assert process_of(watched).pid != process.pid


@pytest.mark.all
def test_on_a_busy_machine_a_broker_is_not_ended_and_nothing_is_given_up(
    tmp_path: Path, server: ProbeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty processes for each that we have: it starts later than it may, and answers later than it is asked to."""

    class HurriedBroker(KafkaBroker):
        start_timeout = 1.0
        probe_interval = 0.2

    locked_jars("kafka")
    broker = HurriedBroker(Site(Home(tmp_path / "home").create(), assign(("core-kafka", "core-kafka-controller"), {})), "core", 1)
    # Its storage is formatted before the load begins: that is a JVM of its own.
    broker.prepare()
    with busy_machine(30), watching(broker) as watched:
        until(lambda: watched.state.health == "healthy" or watched.state.restarts > 0, seconds=400)
        assert watched.state.restarts == 0, watched.state.detail
        process = process_of(watched)
        # Slower still: it has a sixteenth of the time that the others leave it.
        for _ in range(5):
            process.suspend()
            threading.Event().wait(1.5)
            process.resume()
            threading.Event().wait(0.1)
        until(lambda: watched.state.health == "healthy")
        assert (watched.state.pid, watched.state.restarts) == (process.pid, 0)
        monkeypatch.setattr(lifecycle, "_QUICK", 0.0)
        monkeypatch.setattr(lifecycle, "_FIRST_PAUSE", 0.01)
        with watching(server) as other:
            for kills in range(lifecycle.MAX_STARTS + 1):
                process_of(other).kill()
                until(lambda so_far=kills: other.state.restarts > so_far or other.state.health == "failed")
            until(lambda: other.state.health in ("healthy", "failed"))
            assert (other.state.health, other.state.restarts) == ("healthy", lifecycle.MAX_STARTS + 1)
