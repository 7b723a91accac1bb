"""What the tests need of the system: the plan, apt without root for real, the tests that are skipped and counted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pymysql
import pytest

from cdc_assets.stack.component import Identity, as_child, pick_identity
from cdc_assets_tests.programs.wanted import MARIADB, ProgramMissingError
from cdc_assets_tests.support.lake.jvm import free_port

ROOT = Path(__file__).parents[2]
HIDDEN = ("mariadb-install-db", "chromium", "mysqld")
MODULE = [sys.executable, "-m", "cdc_assets_tests.programs"]


def path_without(folder: Path, *commands: str) -> str:
    """A PATH of one folder that has every command of the system but these."""
    folder.mkdir()
    for place in ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for file in Path(place).glob("*"):
            if file.name not in commands and not (folder / file.name).is_symlink():
                (folder / file.name).symlink_to(file)
    return str(folder)


def environment(tmp_path: Path, *hidden: str, **more: str) -> dict[str, str]:
    """Of a user with nothing: an empty cache, and none of the programs on the PATH."""
    for part in (tmp_path, *tmp_path.parents):
        if part.is_relative_to("/tmp") and part != Path("/tmp"):
            part.chmod(0o755)
    path = path_without(tmp_path / "bin", *HIDDEN, *hidden)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CDC_", "XDG_"))}
    return {**kept, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT), **more}


def output(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def somebody(folder: Path) -> Identity:
    """Who is not root, and owns this new folder."""
    identity = pick_identity("tests")
    folder.mkdir()
    if identity.uid is not None:
        os.chown(folder, identity.uid, identity.gid or 0)
    return identity


def test_the_plan_is_apt_for_root_unpacking_for_others_and_skipping_without_apt(tmp_path: Path) -> None:
    if not shutil.which("apt-get"):
        pytest.skip("this system has no apt-get")
    found = environment(tmp_path)
    who = somebody(tmp_path / "cache")
    if os.geteuid() == 0:
        told = output([*MODULE, "--dry-run"], found)
        assert "Chromium: apt-get install --no-install-recommends chromium fonts-dejavu-core libatomic1\n" in told
    told = output(as_child([*MODULE, "--dry-run"], who), found)
    assert re.search(
        r"^MariaDB's server: mariadb-server-core \S+ unpacked below \S+/cache/cdc_assets/system/\S+, without root$", told, re.M
    )
    told = output([*MODULE, "--dry-run", "mysqld"], found)
    assert re.fullmatch(
        r"MySQL's server: mysql-server-core of Debian's sid unpacked below \S+/cache/cdc_assets/system/\S+\n", told
    )
    (Path(found["PATH"]) / "apt-get").unlink()
    told = output([*MODULE, "--dry-run"], found)
    assert "MySQL's server: its tests are skipped: this system has no apt-get" in told
    assert "MariaDB's server: its tests are skipped: this system has no apt-get" in told
    assert list((tmp_path / "cache").iterdir()) == []


def test_where_a_program_cannot_be_had_its_tests_are_skipped_and_counted_in_the_last_line(tmp_path: Path) -> None:
    test = tmp_path / "test_of_two.py"
    test.write_text(
        "from cdc_assets_tests.support.servers.mariadb_server import mariadb_server\n"
        "def test_a_server(tmp_path):\n    with mariadb_server(tmp_path):\n        pass\n"
        "def test_nothing():\n    pass\n"
    )
    command = [sys.executable, "-m", "cdc_assets.cli", "test", str(test), "-q", "-p", "no:cacheprovider"]
    found = environment(tmp_path, "apt-get")
    done = subprocess.run(command, env=found, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (done.stdout + done.stderr).strip().splitlines()
    assert "1 passed, 1 skipped (1 without MariaDB's server)" in (done.stdout.strip().splitlines()[-1], lines[-1])
    assert any("without MariaDB's server: this system has no apt-get" in line for line in lines)
    assert any("its tests are skipped: this system has no apt-get" in line for line in lines)
    assert not any("Chromium" in line for line in lines)


def test_a_missing_program_is_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramMissingError, match=r"without MariaDB's server: ./cdc test installs it"):
        MARIADB.require()


def answers(site: str) -> bool:
    try:
        with urllib.request.urlopen(site, timeout=30):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def status_without(pattern: str) -> str:
    """The system's state of packages, less those that match and those that need them, again and again."""
    stanzas = [text for text in Path("/var/lib/dpkg/status").read_text().split("\n\n") if text.strip()]
    packages = {text.partition("\n")[0].removeprefix("Package: "): text for text in stanzas}
    gone = {name for name in packages if re.match(pattern, name)}
    while gone:
        for name in gone:
            packages.pop(name)
        needs = {name: " ".join(re.findall(r"^(?:Pre-)?Depends: (.*)", text, re.M)) for name, text in packages.items()}
        gone = {name for name, text in needs.items() if re.search(rf"(?<![\w-]){pattern}", text)}
    return "\n\n".join(packages.values()) + "\n"


def bare_system(tmp_path: Path, pattern: str) -> tuple[Identity, dict[str, str]]:
    """Somebody without root on a system that has none of these packages for apt; what its administrator has said stays."""
    apt = shutil.which("apt-get")
    if not apt:
        pytest.skip("this system has no apt-get")
    sites = set(
        subprocess.run([apt, "indextargets", "--format", "$(SITE)"], capture_output=True, text=True, check=True).stdout.split()
    )
    if not any(map(answers, sites)):
        pytest.skip(f"no repository of packages answers: {', '.join(sorted(sites))}")
    (tmp_path / "status").write_text(status_without(pattern))
    (tmp_path / "apt.conf").write_text(f'Dir::State::status "{tmp_path / "status"}";\n')
    who = somebody(tmp_path / "cache")
    return who, environment(tmp_path, APT_CONFIG=str(tmp_path / "apt.conf"), HOME=str(tmp_path / "cache"))


UNPACK_JAVA = """
from cdc_assets_tests.programs.apt import unpack
from cdc_assets_tests.programs.whole_java import WHOLE_JAVA
print(unpack([WHOLE_JAVA]))
"""


@pytest.mark.all
def test_mysqls_server_and_a_java_for_its_connector_are_unpacked_and_run(tmp_path: Path) -> None:
    """Of a Java that the system has as well; its settings are found below the cache, where a bare system has none."""
    who, found = bare_system(tmp_path, r"openjdk|.*java|maven|default-jre")
    assert "is missing" not in output(as_child([*MODULE, "mysqld"], who), found)
    assert output(as_child([sys.executable, "-c", UNPACK_JAVA], who), found) == "{}\n"
    (system,) = (tmp_path / "cache" / "cdc_assets" / "system").glob("*-*")
    told = output(as_child([str(system / "mysql" / "bin" / "mysqld"), "--no-defaults", "--version"], who), found)
    assert "MySQL" in told or "(Debian)" in told
    (home,) = {file.resolve().parent for file in (system / "root" / "usr" / "lib" / "jvm").glob("*/release")}
    modules = output(as_child([str(home / "bin" / "java"), "--list-modules"], who), found)
    assert "jdk.charsets@" in modules
    assert (home / "conf" / "security" / "java.security").resolve().is_relative_to(system)


@pytest.mark.all
def test_without_root_packages_are_unpacked_below_the_cache_and_run(tmp_path: Path) -> None:
    """A real server of MariaDB and a real Chromium, for a user who has neither, nor root."""
    who, found = bare_system(tmp_path, r"(?:lib)?mariadb|chromium|mysql-common|libaio1|liburing")
    told = output(as_child([*MODULE, "mariadbd", "chromium", "localedef"], who), found)
    assert "is missing" not in told, told
    (binaries,) = (tmp_path / "cache" / "cdc_assets" / "system").glob("*/bin")
    assert output(as_child([str(binaries / "chromium"), "--version"], who), found).startswith("Chromium ")
    data, port = tmp_path / "cache" / "data", free_port()
    output(
        as_child(
            [
                str(binaries / "mariadb-install-db"),
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
            ],
            who,
        ),
        found,
    )
    command = [str(binaries / "mariadbd"), "--no-defaults", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1"]
    with subprocess.Popen(
        as_child([*command, f"--socket={data.parent / 's'}", "--skip-name-resolve"], who), env=found, stderr=subprocess.PIPE
    ) as server:
        try:
            assert base_of(port, server) == str(binaries.parent / "root" / "usr")
        finally:
            server.terminate()


def base_of(port: int, server: subprocess.Popen[bytes]) -> str:
    """Its own word of where it runs from."""
    deadline = time.monotonic() + 300
    while True:
        try:
            with pymysql.connect(host="127.0.0.1", port=port, user="root") as connection, connection.cursor() as cursor:
                cursor.execute("SELECT @@basedir")
                return str((cursor.fetchone() or ("",))[0]).rstrip("/")
        except pymysql.err.OperationalError:
            assert server.poll() is None, server.stderr and server.stderr.read()
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.2)
