"""What a stack tells its clients, and what its Java says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets import settings
from cdc_assets.stack import java, plan
from cdc_assets.stack.home import Home


def test_a_message_offers_the_stack_for_all_that_it_sets(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    told = {name for component in plan.components(plan.choose(home, environment={})) for name in component.addresses}
    assert told | {"CDC_HOME", "CDC_LAKE"} == settings.SET_BY_STACK


def test_the_modules_of_a_java_are_read_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = tmp_path / "bin" / "java"
    executable.parent.mkdir()
    executable.write_text("#!/bin/sh\necho java.base@17\necho jdk.asked@17\n")
    executable.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    release = tmp_path / "release"
    release.write_text('JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.charsets"\n')
    assert java.java() == executable
    assert java.java_modules() == {"java.base", "jdk.charsets"}
    release.write_text('JAVA_VERSION="17.0.1"\n')
    with pytest.MonkeyPatch.context() as renamed:
        # What is called java is not started by a test of `--fast`.
        other = executable.rename(executable.with_name("other"))
        renamed.setattr(java, "java", lambda: other)
        assert java.java_modules() == {"java.base", "jdk.asked"}
