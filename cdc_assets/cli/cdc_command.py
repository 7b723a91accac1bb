"""The `cdc` command itself: it finds the verb, loads that one alone, logs what changes something, and ends in words.

Messages for people go to stderr, data to stdout. A failure is one clear text and a non-zero exit. Ctrl-C and SIGTERM end a
command with its Spark jobs. What a terminal acts on is written out. Loading all verbs took a second, so none is loaded to be
listed.

Each command that changes something is a line of `$CDC_HOME/logs/commands.jsonl`, and an observation of the asset `cdc/commands`
in Dagster's event log where its webserver answers. Commands that only look are in neither.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from cdc_assets.cli.verb_table import GROUPS, VERBS, Verb
from cdc_assets.clients.expired_records import on_expired
from cdc_assets.registry.display_text import on_terminal, visible_lines
from cdc_assets.registry.errors import ON_PURPOSE

if TYPE_CHECKING:
    from cdc_assets.clients.platform import Platform
    from spark.errors import BronzeExpiredError


def software_version() -> str:
    """Its number, such as 0.1.0."""
    try:
        return version("cdc-assets")
    except PackageNotFoundError:
        # Run from a clone, which uv does not install.
        text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
        match = re.search(r'^version = "([^"]+)"', text, re.MULTILINE)
        return match[1] if match else "unknown"


class GuardedTerminal:
    """A text stream to a terminal; all but what is written is the stream's."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """The text, with nothing in it that is not ours to ask of a terminal."""
        return int(self._stream.write(on_terminal(text)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_terminal() -> None:
    """From now on; files and pipes get their bytes as they are."""
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is not None and stream.isatty():
            setattr(sys, name, GuardedTerminal(stream))


def _end(*_: object) -> None:
    """Jobs end in a thread of its own, for which the process waits: this one may be in the midst of a call to Spark.

    Raises:
        KeyboardInterrupt: always.
    """
    if spark := sys.modules.get("cdc_assets.clients.spark_sessions"):
        threading.Thread(target=spark.end_jobs, name="end of jobs").start()
    raise KeyboardInterrupt


_LOOK = frozenset({"--dry-run", "--help", "-h", "list", "show", "get"})
_KEYS = frozenset({"--key", "--keys", "--from-key", "--to-key"})
_SECONDS = 5.0
_REPORT = """mutation($params: ReportRunlessAssetEventsParams!) { reportRunlessAssetEvents(eventParams: $params) {
  __typename ... on PythonError { message } ... on UnauthorizedError { message } } }"""


def is_change(words: Sequence[str]) -> bool:
    """Whether the command changes something; `reconcile` does so by --heal alone."""
    if not words or words[0] not in VERBS or not VERBS[words[0]].changes or _LOOK & {*words[1:]}:
        return False
    return words[0] != "reconcile" or "--heal" in words


@contextmanager
def record_command(words: Sequence[str]) -> Iterator[None]:
    """Run the command within the block; its line tells how it ended.

    The line is an observation of the asset `cdc/commands` in Dagster's event log as well, where its webserver answers: the
    instance's log outlives this machine, and a page shows it. Commands that only look are in neither.
    """
    began, code = time.monotonic(), 1
    try:
        yield
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    finally:
        if is_change(words):
            _record(_line(words, code, time.monotonic() - began))


def _line(words: Sequence[str], code: int, seconds: float) -> dict[str, Any]:
    from cdc_assets.registry import settings

    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "user": settings.caller(),
        "host": socket.gethostname(),
        "command": shlex.join(("cdc", *_without_keys(words))),
        "exit": code,
        "seconds": round(seconds, 1),
    }


def _without_keys(words: Sequence[str]) -> Iterator[str]:
    # Keys are values of rows, and may be sensitive: that some were named is enough.
    hides = False
    for word in words:
        name, sign, _ = word.partition("=")
        yield "(hidden)" if hides else f"{name}=(hidden)" if sign and name in _KEYS else word
        hides = word in _KEYS


def _record(line: dict[str, Any]) -> None:
    from cdc_assets.registry import settings

    if not settings.home().is_dir():
        return  # `cdc down --wipe` has left none, and none is made for its line.
    file = settings.home() / "logs" / "commands.jsonl"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    mark = _tell_dagster(line)
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(json.dumps({**line, "dagster": mark}, ensure_ascii=False) + "\n")


def _tell_dagster(line: dict[str, Any]) -> str:
    """`told`, or why it was not: a command has done its work, whether Dagster is there or not."""
    from cdc_assets.clients.dagster_answers import DagsterAnswers
    from cdc_assets.registry.errors import CdcAssetsError
    from cdc_assets.registry.names import COMMANDS

    ended = "done" if line["exit"] == 0 else f"exit {line['exit']}"
    text = f"{line['user']} at {line['host']}: {line['command']} ({ended}, {line['seconds']} s)"
    params = {"eventType": "ASSET_OBSERVATION", "assetKey": {"path": [*COMMANDS]}, "description": text}
    try:
        answer = DagsterAnswers(seconds=_SECONDS).ask(_REPORT, params=params)["reportRunlessAssetEvents"]
    except CdcAssetsError as error:
        return str(error)
    return "told" if answer["__typename"] == "ReportRunlessAssetEventsSuccess" else str(answer.get("message"))


class Verbs(Mapping[str, Any]):
    """`{name: command}`: each is made when it is asked for, and kept.

    Loading all of them took a second: they import the registry, Kafka Connect's client and Dagster.
    """

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._verbs = verbs
        self._made: dict[str, Any] = {}

    @override
    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _load_verb(name, self._verbs[name])
        return self._made[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    @override
    def __len__(self) -> int:
        return len(self._verbs)


def _load_verb(name: str, verb: Verb) -> Any:
    loaded = verb.load(name)
    if isinstance(loaded, typer.Typer):
        loaded.info.name = name
        group = typer.main.get_group(loaded)
        group.name = name
        return group
    holder = typer.Typer(add_completion=False)
    holder.command(name, context_settings=dict(verb.context))(loaded)
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
                from cdc_assets.registry.errors import plain_words

                error.message = "; ".join(dict.fromkeys(plain_words(one) for one in errors(include_url=False)))
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


_HELP = """Carries databases into a lake, and shows that nothing is lost on the way.

Messages for people go to stderr, data to stdout. A failure is one clear text and a non-zero exit; CDC_DEBUG=1 shows the
stack trace as well.
"""
app = typer.Typer(
    name="cdc",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=_HELP,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"cdc {software_version()}")
        raise typer.Exit


@app.callback()
def cdc(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the verb."""


def _bring_back(platform: Platform, error: BronzeExpiredError) -> bool:
    from cdc_assets.recovery.past_records import bring_back_for_job

    return bring_back_for_job(platform, error)


def main() -> None:
    """Run the command line."""
    on_expired(_bring_back)
    guard_terminal()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Until a command takes these signals for itself. What is ignored (nohup) stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        with record_command(sys.argv[1:]):
            # By its name: started as `python -m` by the launcher, it would give the shell a completion for that.
            app(prog_name="cdc")
    except ON_PURPOSE as error:
        if os.environ.get("CDC_DEBUG"):
            raise
        print(visible_lines(f"cdc: {error}"), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("cdc: interrupted, with its Spark jobs; what the stack runs keeps running: ./cdc status", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # `cdc logs kafka | head`: the reader has what it wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
