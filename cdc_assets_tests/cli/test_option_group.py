"""What typer is shown of a verb: a dataclass stands for its fields, as options; sources are looked up by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from cdc_assets.cli.declared_sources import EVERY_SOURCE, Sources
from cdc_assets.cli.verb_frame import OneChain, verb
from cdc_assets.cli.verb_table import VERBS
from cdc_assets.clients.platform import Platform
from cdc_assets.registry.errors import RegistryError


@dataclass(frozen=True)
class Wanted:
    """Two options."""

    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 10
    loud: Annotated[bool, typer.Option("--loud", "-l")] = False


@verb()
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


@verb(failure=2)
def name_sources(platform: Platform, first: OneChain, sources: Sources = EVERY_SOURCE) -> None:
    """What a verb gets for names."""
    assert isinstance(platform, Platform)
    assert isinstance(first.platform, Platform)
    print(first.source.name, *(source.name for source in sources), sources.are_named)


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        (("shop",), 0, "shop erp shop False"),
        (("shop", "shop"), 0, "shop shop True"),
        (("shop", "shop", "erp"), 0, "shop erp shop True"),
        (("nobody",), 2, "no source nobody; there are: erp, shop"),
        (("shop", "nobody"), 2, "no source nobody; there are: erp, shop"),
    ],
)
def test_sources_are_looked_up_and_all_are_meant_without_a_name(
    words: tuple[str, ...], code: int, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "source: {0}\nkind: topics\ntables: [{{name: t, topic: {0}, envelope: json, columns: {{id: bigint}}}}]\n"
    for name in ("shop", "erp"):
        (tmp_path / f"{name}.yaml").write_text(text.format(name))
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    app = typer.Typer(rich_markup_mode=None)
    app.command()(name_sources)
    done = CliRunner().invoke(app, [*words])
    assert (done.exit_code, printed in " ".join(done.output.split())) == (code, True), done.output


@pytest.mark.parametrize(("failure", "code"), [(1, 1), (2, 2)])
def test_what_keeps_a_verb_from_its_answer_has_its_exit_code(
    failure: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code 1 of an error of ours is given by the command as a whole (cdc_command.main)."""
    (tmp_path / "broken.yaml").write_text("source: [")
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))

    @verb(failure=failure)
    def look(sources: Sources = EVERY_SOURCE) -> None:
        raise AssertionError(sources)

    app = typer.Typer()
    app.command()(look)
    done = CliRunner().invoke(app, [])
    assert done.exit_code == code
    assert isinstance(done.exception, RegistryError if failure == 1 else SystemExit)


def commands_of(app: typer.Typer) -> list[Callable[..., Any]]:
    """Those of a group of verbs, and of the groups in it."""
    own = [command.callback for command in app.registered_commands if command.callback]
    return own + [
        command for group in app.registered_groups if group.typer_instance for command in commands_of(group.typer_instance)
    ]


def test_every_verb_stands_in_its_frame() -> None:
    loaded = {name: verb.load(name) for name, verb in VERBS.items()}
    commands = {name: commands_of(made) if isinstance(made, typer.Typer) else [made] for name, made in loaded.items()}
    assert [name for name, made in commands.items() for command in made if not hasattr(command, "__wrapped__")] == []
