"""The supervisor over two real components (PostgreSQL, GCS): death, kill -9 of everything, stopping, modes, users."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cdc_assets.stack import processes, supervisor
from cdc_assets.stack.component_plan import load
from cdc_assets.stack.component_state import StackState, rotate, tail
from cdc_assets.stack.components.postgres_server import Postgres
from cdc_assets.stack.home import Home, read_json, supervisor_pid
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.support.own_stack import ELSEWHERE, named_gcs, state_of, until
from cdc_assets_tests.support.stack_fixture import environment_of

pytestmark = pytest.mark.stack


def up(home: Home) -> StackState:
    supervisor.start(home)
    return supervisor.wait_healthy(home, seen=lambda _: None, timeout=180)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    with environment_of(home):
        os.environ.update(ELSEWHERE, **named_gcs(tmp_path / "sources"))
        up(home)
        try:
            yield home
        finally:
            supervisor.stop(home)


def test_a_killed_component_comes_back_with_its_data(home: Home) -> None:
    server = Postgres(load(home))
    with server.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    killed = state_of(home, "postgres").pid
    assert killed
    os.kill(killed, signal.SIGKILL)
    until(lambda: state_of(home, "postgres").restarts == 1 and state_of(home, "postgres").health == "healthy")
    assert state_of(home, "postgres").pid != killed
    assert state_of(home, "gcs").restarts == 0
    with server.connect() as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_after_kill_9_of_everything_nothing_is_left_and_up_works(home: Home) -> None:
    pid = supervisor_pid(home)
    assert pid
    ports = dict(read_json(home.config)["ports"])
    family = psutil.Process(pid).children(recursive=True)
    assert len(family) > 5, "postgres and its own children among them"
    # Only the supervisor: its children must follow it.
    os.kill(pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert processes.find_orphans(home) == []
    # What a reused pid looks like to PostgreSQL: its lock file names a live process that is another one.
    lock = home.data("postgres") / "postmaster.pid"
    lines = lock.read_text().splitlines()
    lock.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert up(home).healthy
    assert read_json(home.config)["ports"] == ports


def test_up_twice_changes_nothing_and_down_leaves_nothing(home: Home) -> None:
    before = {name: state_of(home, name).pid for name in ("postgres", "gcs")}
    assert supervisor.start(home) is False
    assert {c.name: c.pid for c in supervisor.wait_healthy(home, seen=lambda _: None).components} == before
    assert supervisor.stop(home) is True
    assert supervisor.stop(home) is False
    assert processes.find_orphans(home) == []
    assert not any(psutil.pid_exists(pid) for pid in before.values() if pid)
    supervisor.wipe(home)
    assert not home.root.exists()


def test_the_state_is_private_and_the_passwords_are_in_no_log(home: Home) -> None:
    for path in (home.root, *home.root.rglob("*")):
        if path.is_symlink() or not path.exists():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0, f"{path} has mode {mode:o}"
    secrets = [file.read_text() for folder in ("secrets", "private") for file in (home.root / folder).iterdir()]
    assert secrets
    logs = "".join(file.read_text(errors="replace") for file in (home.root / "logs").iterdir())
    assert not [secret for secret in secrets if secret in logs]
    arguments = [" ".join(p.cmdline()) for p in processes.find_orphans(home)]
    assert not [secret for secret in secrets if any(secret in text for text in arguments)]


def test_postgres_is_never_root(home: Home) -> None:
    server = psutil.Process(state_of(home, "postgres").pid)
    assert 0 not in server.uids()
    capabilities = next(line for line in Path(f"/proc/{server.pid}/status").read_text().splitlines() if line.startswith("CapEff"))
    # One bit at most: DAC_READ_SEARCH (2) or DAC_OVERRIDE (1), to reach its folder below 0700 parents.
    assert int(capabilities.split()[1], 16) in (0, 1 << 1, 1 << 2)


def test_a_component_that_cannot_start_is_given_up_named_and_tried_again_by_up(home: Home) -> None:
    supervisor.stop(home)
    blocker = home.data("gcs")
    kept = blocker.with_name("kept")
    blocker.rename(kept)
    blocker.write_text("a file where a folder must be")
    with pytest.raises(StackError, match=r"gcs: .*gcs") as caught:
        up(home)
    assert caught.value.component == "gcs"
    blocker.unlink()
    kept.rename(blocker)
    assert up(home).healthy


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; from cdc_assets.stack.component import as_child\n"
        "print(subprocess.Popen(as_child(['sleep', '600'])).pid, flush=True); time.sleep(600)"
    )
    root = str(Path(__file__).parents[2])
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        until(lambda: child.name() == "sleep")
        parent.kill()
    psutil.wait_procs([child], timeout=60)
    assert not child.is_running()


def test_a_log_is_bounded_and_its_end_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    with file.open("a") as writer:
        for generation in range(6):
            writer.write(f"generation {generation}\n" * 100)
            writer.flush()
            assert rotate(file, max_bytes=1000, kept=3)
        writer.write("the end\n")
    assert tail(file, 5) == ["the end"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.log", "x.log.1", "x.log.2", "x.log.3"]
    assert (tmp_path / "x.log.1").read_text().startswith("generation 5")
