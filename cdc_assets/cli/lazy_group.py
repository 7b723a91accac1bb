"""A group of verbs that loads the one that is called, and none to be listed.

Loading all of them took a second: they import the registry, Kafka Connect's client and Dagster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from cdc_assets.cli.verbs import GROUPS, VERBS, Verb


class Verbs(Mapping[str, Any]):
    """`{name: command}`: each is made when it is asked for, and kept."""

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._verbs = verbs
        self._made: dict[str, Any] = {}

    @override
    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _load(name, self._verbs[name])
        return self._made[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    @override
    def __len__(self) -> int:
        return len(self._verbs)


def _load(name: str, verb: Verb) -> Any:
    module, attribute = verb.place.split(":")
    found = getattr(import_module(f"cdc_assets.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        found.info.name = name
        group = typer.main.get_group(found)
        group.name = name
        return group
    holder = typer.Typer(add_completion=False)
    holder.command(name, context_settings=dict(verb.context))(found)
    return typer.main.get_command(holder)


class LazyGroup(TyperGroup):
    """The verbs of `verbs.VERBS`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": {}})
        self.commands = Verbs(VERBS)  # type: ignore[assignment]
        self._listed: dict[str, TyperCommand] = {}

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._listed.get(cmd_name) or self.commands.get(cmd_name)

    @override
    def invoke(self, ctx: Any) -> Any:
        """In plain words also what typer, which asks pydantic, finds wrong in an option."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            errors = getattr(error.__cause__, "errors", None)
            if errors is not None:
                from cdc_assets.registry_files.plain_words import plain_words

                error.message = "; ".join(dict.fromkeys(plain_words(found) for found in errors(include_url=False)))
            raise

    @override
    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._by_summary():
            super().format_help(ctx, formatter)

    @override
    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._by_summary():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _by_summary(self) -> Iterator[None]:
        """Within the block a verb is its name and its summary."""
        self._listed = {
            name: TyperCommand(name, help=verb.summary, rich_help_panel=title)
            for title, verbs in GROUPS.items()
            for name, verb in verbs.items()
        }
        try:
            yield
        finally:
            self._listed = {}
