"""One rule for all verbs: what is asked for wrongly is exit code 2, in plain words; and `-h` and `--version` answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cdc_assets
from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verb_table import GROUPS, VERBS
from spark.errors import quantity

ROOT = Path(__file__).parents[2]
TAKES_A_SOURCE = (
    "preflight nobody",
    "diff nobody",
    "apply nobody",
    "wait nobody",
    "reconcile nobody",
    "reconcile nobody.city",
    "ledger nobody/city",
    "get connectors nobody",
    "get tables nobody",
    "get topics nobody",
    "get mirrors nobody",
    "onboard nobody public.city",
    "onboard nobody public.city --dry-run",
    "onboard nobody --resume",
    "onboard nobody --rollback",
    "offboard nobody public.city",
    "offboard nobody public.city --dry-run",
    "remove nobody --yes",
    "repair bronze nobody city",
    "repair source nobody",
    "quarantine list nobody",
    "quarantine redrive nobody/city",
    "quarantine drop nobody/city",
)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No service is known: whoever needs one first would say so, and end with 1."""
    monkeypatch.setenv("CDC_SOURCES", str(Path(cdc_assets.__file__).parent / "sources"))
    monkeypatch.setenv("CDC_HOME", str(tmp_path))


def answer(*arguments: str) -> tuple[int, str]:
    """Exit code, and all that is printed, without the frame around an error."""
    result = CliRunner().invoke(app, [*arguments])
    return result.exit_code, re.sub(r"[\s│]+", " ", result.output + str(result.exception or ""))


@pytest.mark.parametrize("typed", TAKES_A_SOURCE)
def test_an_unknown_source_is_bad_usage(typed: str) -> None:
    code, said = answer(*typed.split())
    assert (code, "no source nobody; there are: bank, world" in said) == (2, True), said


@pytest.mark.parametrize("typed", ["repair bronze world nope", "quarantine list world/nope", "reconcile world.nope"])
def test_an_unknown_table_is_bad_usage(typed: str) -> None:
    code, said = answer(*typed.split())
    assert (code, "has no table 'nope'" in said) == (2, True), said


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("status -o jsn", "'--output' / '-o': 'jsn' is not one of 'text', 'wide', 'json', 'yaml'."),
        ("wait --timeout soon", "'--timeout': must be a number"),
        ("logs kafka -n many", "must be a whole number"),
        ("wait --timeout -1", "'--timeout': must be 0 or more"),
        ("onboard bank public.t --route fast", "no route 'fast'; there are: incremental"),
        ("render --target helm --out x", "no target 'helm'"),
        ("sql --register SELECT", "--register and --no-register take neither a statement nor --cut"),
        ("sql --no-register --cut world", "--register and --no-register take neither a statement nor --cut"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_in_plain_words(typed: str, expected: str) -> None:
    code, said = answer(*typed.split())
    assert (code, expected in said) == (2, True), said
    assert not re.search("Value error|Input should|valid (integer|number)", said)


def test_version_and_short_help() -> None:
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared
    assert answer("--version") == (0, f"cdc {declared[1]} ")
    assert answer("-h") == answer("--help")
    assert answer("onboard", "-h") == answer("onboard", "--help")
    assert answer("offsets", "get", "-h")[0] == 0


def test_verbs_are_listed_in_groups() -> None:
    code, said = answer("--help")
    assert code == 0
    places = [said.index(f"─ {title} ─") for title in GROUPS]
    assert places == sorted(places)
    assert sorted(VERBS) == sorted(name for verbs in GROUPS.values() for name in verbs)
    assert max(len(verbs) for verbs in GROUPS.values()) < 10


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [(0, "row", "0 rows"), (1, "row", "1 row"), (2, "row", "2 rows"), (1, "entry", "1 entry"), (3, "entry", "3 entries")],
)
def test_one_is_not_many(count: int, noun: str, said: str) -> None:
    assert quantity(count, noun) == said


def test_one_source_with_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = "{name: events, topic: guest.events, envelope: json, columns: {id: bigint}}"
    (tmp_path / "guest.yaml").write_text(f"source: guest\nkind: topics\ntables: [{table}]\n")
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    code, said = answer("validate")
    assert (code, said.split(" (")[0], " 1 source in " in said) == (0, "guest: 1 table", True)
