"""Every `cdc` command that a page shows is one: its verb, its options and its number of arguments are parsed, nothing runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from cdc_assets.cli.cdc_command import app

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in ("adr", "archive")),
]
# `cdc get connectors|tables`, `[--dry-run]`, `…`: forms for people, of several commands at once.
_FORM = re.compile(r"[|&\[\]…]")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_are_parsed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = {command: refusal(command) for command in in_blocks(text)}
    # A sentence names a command without its arguments.
    wrong |= {command: said for command in in_sentences(text) if "Missing" not in (said := refusal(command))}
    assert {command: said for command, said in wrong.items() if said} == {}


def test_what_is_no_command_is_refused() -> None:
    assert refusal("./cdc undo shop") == "No such command: cdc undo"
    assert "No such option" in refusal("cdc reconcile shop --mend")
    assert "Missing" in refusal("cdc repair source")
    assert refusal("cdc repair source shop --dry-run") == ""
    text = "```sh\nCDC_X=1 ./cdc up && true   # start\n./cdc \\\n  wait > file\n```\n`cdc wait --help`, `cdc a|b`"
    assert [*in_blocks(text), *in_sentences(text)] == ["./cdc up", "./cdc wait", "cdc wait --help"]


def in_blocks(text: str) -> Iterator[str]:
    """Each line of the blocks for a shell that begins with `cdc`, without variables before it and redirections behind it."""
    blocks = re.findall(r"^ *```sh\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        found = re.match(r"(?:\w+=\S* +)*((?:\./)?cdc .*)", line.strip())
        if found:
            words = shlex.split(found[1], comments=True)
            yield shlex.join(takewhile(lambda word: word not in (">", "&&", "|", ";"), words))


def in_sentences(text: str) -> Iterator[str]:
    """What stands between backticks."""
    inline = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (code for code in re.findall(r"`((?:\./)?cdc [^`]+)`", inline) if not _FORM.search(code))


def refusal(command: str) -> str:
    """Why the command line refuses it; empty when it does not."""
    verb: Any = typer.main.get_command(app)
    words, path = shlex.split(command)[1:], "cdc"
    if "--help" in words or "-h" in words:
        words = [word for word in words if word not in ("--help", "-h")]
        return said if "No such" in (said := refusal(shlex.join(["cdc", *words]))) else ""
    while hasattr(verb, "commands") and words and not words[0].startswith("-"):
        path, inner = f"{path} {words[0]}", verb.commands.get(words[0])
        if inner is None:
            return f"No such command: {path}"
        verb, words = inner, words[1:]
    try:
        verb.make_context(path, words)
    except (typer.Exit, SystemExit):
        return ""
    except Exception as error:
        text = str(getattr(error, "message", "") or type(error).__name__)
        is_unfinished = "Missing" in type(error).__name__ or "NoArgs" in type(error).__name__ or "requires an argument" in text
        return f"Missing: {text}" if is_unfinished else text
    return ""
