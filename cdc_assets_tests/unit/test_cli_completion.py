"""The shell completes sources and connectors from the registry, without any service."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import cdc_assets
from cdc_assets.cli import app


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("cdc preflight wo", ["world"]), ("cdc restart ba", ["bank-capture", "bank-mirror"]), ("cdc get conn", ["connectors"])],
)
def test_completion(typed: str, offered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCES", str(Path(cdc_assets.__file__).parent / "sources"))
    asked = {"_CDC_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    result = CliRunner().invoke(app, [], prog_name="cdc", env=asked)
    assert result.stdout.split() == offered
