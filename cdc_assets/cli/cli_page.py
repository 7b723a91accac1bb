"""docs/reference/cli.md, written from the commands: `python -m cdc_assets.cli.cli_page > docs/reference/cli.md`."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import typer

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verb_table import GROUPS

HEAD = """\
# Commands

```sh
./cdc --help           # the list
./cdc onboard --help   # one command
```

This page is generated from the commands: run `python -m cdc_assets.cli.cli_page`. What each command
leaves when it is killed: [operations.md](operations.md).

Messages for people go to stderr, data to stdout. The exit code is 0 when all is well. It is 1 when
something failed or differs, and 2 for bad usage. `CDC_DEBUG=1` shows the stack trace of a failure.
"""
_WIDTH = 100
_LEFT_OUT = {"help", "install_completion", "show_completion"}


def cli_page() -> str:
    """The whole page, as Markdown text."""
    group: Any = typer.main.get_command(app)
    commands = group.commands
    parts = [HEAD]
    for title, verbs in GROUPS.items():
        parts.append(f"\n## {title}\n")
        for name, verb in verbs.items():
            parts.append(f"\n### `cdc {name}`\n")
            if hasattr(commands[name], "commands"):
                parts.append(f"\n{verb.summary}\n")
            parts += [_command(path, command) for path, command in _leaves(f"cdc {name}", commands[name])]
    return "".join(parts)


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from _leaves(f"{path} {name}", inner)


def _command(path: str, command: Any) -> str:
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    rows = "".join(_row(param, context) for param in command.params if param.name not in _LEFT_OUT)
    table = f"\n| | means | default |\n|---|---|---|\n{rows}" if rows else ""
    return f"\n```\n{usage}\n```\n\n{_prose(command.help or '')}{table}"


def _prose(text: str) -> str:
    paragraphs = inspect.cleandoc(text).replace("\b\n", "\b").split("\n\n")
    return "\n\n".join(p[1:] if p.startswith("\b") else textwrap.fill(p, _WIDTH) for p in paragraphs) + "\n"


def _row(param: Any, context: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    if param.param_type_name == "argument":
        names = " ".join(f"`{piece}`" for piece in param.get_usage_pieces(context))
    default = getattr(param.default, "value", param.default)
    shown = "" if default in (None, False, (), [], "") else f"`{str(default).lower() if default is True else default}`"
    means = " ".join((param.help or "").split()).replace("|", "\\|")
    return f"| {names} | {means} | {shown} |\n"


if __name__ == "__main__":
    print(cli_page(), end="")
