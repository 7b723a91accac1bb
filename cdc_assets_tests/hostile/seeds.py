"""Which seeds a run plays: that of the commit's files, given ones, or one after the other until its seconds are over.

The seed of the files is another one after each change, and the same for everybody who runs it again: what CI has found is
found again on any machine. A run of `--all` begins with a seed that nobody has seen.
"""

from __future__ import annotations

import secrets
import subprocess
import time
import traceback
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

import pytest

_OF_ALL = 1800
"""Seconds per database: an hour for both."""
_SEEDS = 10**6


def add_options(parser: pytest.Parser) -> None:
    """`--hostile-seed N` and `--hostile-seconds N`."""
    seed = "a seed of the hostile workload (docs/how-to/testing.md); may be given more than once"
    parser.addoption("--hostile-seed", type=int, metavar="N", action="append", help=seed)
    seconds = f"go on with the next seeds until so many seconds have passed; default: the seeds above, with --all {_OF_ALL}"
    parser.addoption("--hostile-seconds", type=int, metavar="N", help=seconds)


def play_seeds(request: pytest.FixtureRequest, what: str, play: Callable[[int], None]) -> None:
    """Each seed is told before it is played, past pytest's capture; one that fails does not keep the next from being played."""
    config = request.config
    seconds = config.getoption("--hostile-seconds")
    if seconds is None:
        seconds = _OF_ALL if config.option.all else 0
    seeds = config.getoption("--hostile-seed") or [fresh_seed() if config.option.all else seed_of_files()]
    failed, until = list[str](), time.monotonic() + seconds
    for seed in chain(seeds, count(max(seeds) + 1)):
        if seed not in seeds and time.monotonic() > until:
            break
        began = time.monotonic()
        again = f"./cdc test cdc_assets_tests/hostile -k {request.node.name} --hostile-seed {seed}"
        _tell(config, f"hostile workload on {what}: {again}")
        try:
            play(seed)
        except Exception:
            failed.append(f"{traceback.format_exc()}\nplay it again: {again}")
            _tell(config, failed[-1])
        _tell(config, f"hostile workload on {what}: seed {seed} took {time.monotonic() - began:.0f} s")
    assert not failed, "\n".join(failed)


def seed_of_files() -> int:
    """Of the files as they are committed; a fresh one outside of a clone."""
    told = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(told.stdout[:12], 16) % _SEEDS if told.returncode == 0 else fresh_seed()


def fresh_seed() -> int:
    return secrets.randbelow(_SEEDS)


def _tell(config: pytest.Config, line: str) -> None:
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{line}", flush=True)
