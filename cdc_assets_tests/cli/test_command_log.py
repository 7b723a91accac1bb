"""Who did what with `cdc`: a command that changes something leaves its line, one that looks leaves none."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from cdc_assets.cli.cdc_command import _line, is_change, main


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("apply world", True),
        ("apply world --dry-run", False),
        ("diff world", False),
        ("reconcile world", False),
        ("reconcile world --heal", True),
        ("quarantine list", False),
        ("quarantine redrive world/city", True),
        ("offsets get world-capture", False),
        ("offsets reset world-capture", True),
        ("remove --help", False),
        ("no-such-verb", False),
        ("traffic --seconds 5", True),
        ("spec bronze world", False),
        ("", False),
    ],
)
def test_what_changes_something(command: str, changes: bool) -> None:
    assert is_change(command.split()) is changes


@pytest.mark.parametrize("words", [["--keys", "SECRETKEY-777"], ["--keys=SECRETKEY-777"], ["--from-key", "SECRETKEY-777"]])
def test_keys_of_rows_are_not_in_the_line(words: list[str]) -> None:
    line = _line(["restore", "shop", *words, "--yes"], 0, 1.0)["command"]
    assert "SECRETKEY" not in line
    assert line.endswith("--yes")


def test_a_command_leaves_a_line_that_only_its_user_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.setenv("CDC_DAGSTER_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("CDC_USER", "release job")
    for words, code in ((["restart", "no such", "--yes"], None), (["validate"], 0)):
        monkeypatch.setattr("sys.argv", ["cdc", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert code is None or ended.value.code in (code, None)
    file = tmp_path / "logs" / "commands.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    (line,) = [json.loads(text) for text in file.read_text().splitlines()]
    assert line["command"] == "cdc restart 'no such' --yes"
    assert line["user"] == f"release job ({getpass.getuser()})"
    assert line["exit"] != 0
    assert "does not answer" in line["dagster"]
