"""Who did what with `cdc`: each command that changes something is a line of `$CDC_HOME/logs/commands.jsonl`.

The same is an observation of the asset `cdc/commands` in Dagster's event log, where its webserver answers: the instance's log
outlives this machine, and a page shows it. Commands that only look are in neither.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from cdc_assets.cli.verbs import VERBS

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
    """Run the command within the block; its line tells how it ended."""
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
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "user": _user(),
        "host": socket.gethostname(),
        "command": shlex.join(("cdc", *_without_keys(words))),
        "exit": code,
        "seconds": round(seconds, 1),
    }


def _without_keys(words: Sequence[str]) -> Iterator[str]:
    """Keys are values of rows, and may be sensitive: that some were named is enough."""
    hides = False
    for word in words:
        name, sign, _ = word.partition("=")
        yield "(hidden)" if hides else f"{name}=(hidden)" if sign and name in _KEYS else word
        hides = word in _KEYS


def _user() -> str:
    """The account; with who became it by sudo, or the name that a job gives itself by CDC_USER."""
    import getpass

    try:
        account = getpass.getuser()
    except (OSError, KeyError):
        account = str(os.getuid())
    behind = os.environ.get("CDC_USER") or os.environ.get("SUDO_USER")
    return f"{behind} ({account})" if behind and behind != account else account


def _record(line: dict[str, Any]) -> None:
    from cdc_assets import settings

    if not settings.home().is_dir():
        return  # `cdc down --wipe` has left none, and none is made for its line.
    file = settings.home() / "logs" / "commands.jsonl"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    told = _tell_dagster(line)
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(json.dumps({**line, "dagster": told}, ensure_ascii=False) + "\n")


def _tell_dagster(line: dict[str, Any]) -> str:
    """`told`, or why it was not: a command has done its work, whether Dagster is there or not."""
    from cdc_assets.errors import CdcAssetsError
    from cdc_assets.names import COMMANDS
    from cdc_assets.resources.dagster_answers import DagsterAnswers

    ended = "done" if line["exit"] == 0 else f"exit {line['exit']}"
    text = f"{line['user']} at {line['host']}: {line['command']} ({ended}, {line['seconds']} s)"
    params = {"eventType": "ASSET_OBSERVATION", "assetKey": {"path": [*COMMANDS]}, "description": text}
    try:
        answer = DagsterAnswers(seconds=_SECONDS).ask(_REPORT, params=params)["reportRunlessAssetEvents"]
    except CdcAssetsError as error:
        return str(error)
    return "told" if answer["__typename"] == "ReportRunlessAssetEventsSuccess" else str(answer.get("message"))
