"""What a stack tells its clients, and what its Java says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.registry import settings
from cdc_assets.stack import component_plan, runtimes
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.connect_worker import ConnectWorker
from cdc_assets.stack.home import Home
from cdc_assets_tests.support.own_stack import named_gcs


def test_a_message_offers_the_stack_for_all_that_it_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCES", named_gcs(tmp_path / "sources")["CDC_SOURCES"])
    home = Home(tmp_path / "home").create()
    told = {
        name
        for component in component_plan.components(component_plan.choose(home, environment={}))
        for name in component.addresses
    }
    assert told | {"CDC_HOME", "CDC_LAKE"} == settings.SET_BY_STACK


def test_the_modules_of_a_java_are_read_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = tmp_path / "bin" / "java"
    executable.parent.mkdir()
    executable.write_text("#!/bin/sh\necho java.base@17\necho jdk.asked@17\n")
    executable.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    release = tmp_path / "release"
    release.write_text('JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.charsets"\n')
    assert runtimes.java() == executable
    assert runtimes.java_modules() == {"java.base", "jdk.charsets"}
    release.write_text('JAVA_VERSION="17.0.1"\n')
    with pytest.MonkeyPatch.context() as renamed:
        # What is called java is not started by a test of `--fast`.
        other = executable.rename(executable.with_name("other"))
        renamed.setattr(runtimes, "java", lambda: other)
        assert runtimes.java_modules() == {"java.base", "jdk.asked"}


def made(folder: Path, version: str, *modules: str) -> Path:
    """The `java` of a Java that only its folder tells of."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.touch(0o700)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{" ".join(("java.base", *modules))}"\n')
    return executable


def test_another_java_of_the_machine_is_taken_for_a_module_that_the_stacks_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, folder = ("jdk.charsets",), tmp_path / "jvm"
    own = made(tmp_path / "own", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    made(folder / "old", "11.0.2", *wanted)
    made(folder / "trimmed", "25")
    (folder / "no-java").mkdir()
    assert runtimes.java_having(wanted, [folder]) is None
    older, newer = made(folder / "b", "17.0.1", *wanted), made(folder / "a", "21.0.9", *wanted)
    assert runtimes.java_having(wanted, [folder]) == newer
    # As Debian's alternatives have it: a link on the PATH.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(older)
    assert runtimes.java_having(wanted, [folder]) == older
    assert runtimes.java_having((), [folder]) == runtimes.java_having(["java.base"], [folder]) == own
    # Only the worker that has the plugin runs on it.
    site = Site(Home(tmp_path / "home"), {}, plugins=("debezium-postgres", "debezium-mysql"))
    assert ConnectWorker(site, "core").java == older
    plain = Site(site.home, {})
    assert {ConnectWorker(plain, "core").java, ConnectWorker(site, "lake").java} == {own}
    monkeypatch.setenv("JAVA_HOME", str(older.parents[1]))
    assert runtimes.java_having(wanted, [folder]) == older
