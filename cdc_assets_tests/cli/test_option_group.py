"""A dataclass in a command's signature stands for its fields, as options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from cdc_assets.cli.verb_frame import group_options


@dataclass(frozen=True)
class Wanted:
    """Two options."""

    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 10
    loud: Annotated[bool, typer.Option("--loud", "-l")] = False


@group_options
def fetch(place: Annotated[str, typer.Argument()], wanted: Wanted, last: str = "end") -> None:
    """Fetch from a place."""
    print(place, wanted, last)


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ((), "here Wanted(limit=10, loud=False) end"),
        (("--limit", "3", "-l", "--last", "z"), "here Wanted(limit=3, loud=True) z"),
    ],
)
def test_the_command_gets_the_group_with_defaults_or_what_was_given(words: tuple[str, ...], printed: str) -> None:
    app = typer.Typer()
    app.command()(fetch)
    assert CliRunner().invoke(app, ["here", *words]).output.strip() == printed


def test_the_options_are_checked_and_stand_at_the_groups_place() -> None:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(fetch)
    refused = CliRunner().invoke(app, ["here", "--limit", "0"])
    assert (refused.exit_code, "--limit" in refused.output) == (2, True), refused.output
    shown = CliRunner().invoke(app, ["--help"]).output
    assert shown.index("--limit") < shown.index("--loud") < shown.index("--last")
    assert "Fetch from a place." in shown
