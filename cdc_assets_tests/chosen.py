"""Which tests a run plays: `--fast`, the core, or `--all`; of those a part (parts.py), or the ones that a file names.

What is marked `all` is not of the core: the rotation plays it (docs/contributing.md). What is marked `service`, or asks for a
fixture that starts something, is not for `--fast`; a test that starts a server all the same fails there. Nor is what is marked
`slow`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from cdc_assets_tests.hostile import seeds
from cdc_assets_tests.parts import PARTS, is_served, parts_of
from cdc_assets_tests.run.catalogue import write_catalogue

_SERVERS = frozenset({"java", "postgres", "initdb", "pg_ctl", "mariadbd", "mariadb-install-db", "mysqld", "chromium"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--fast`, `--all`, `--part NAME` and `--shard I-of-N`, and which worlds of the hostile workload."""
    parser.addoption("--fast", action="store_true", help="only tests that start no service and no JVM, and take no seconds")
    parser.addoption("--all", action="store_true", help="also tests that take minutes, and those of servers that nobody brings")
    text = "only the tests of this part of the suite (cdc_assets_tests/parts.py); may be given more than once"
    home = "the home of a stack that runs already: the folders stack and e2e use it, and leave it alone"
    parser.addoption("--stack-home", metavar="FOLDER", help=home)
    parser.addoption("--part", choices=PARTS, action="append", help=text)
    parser.addoption("--chosen", metavar="FILE", help="only the tests that this file names, a line each")
    parser.addoption("--catalogue", metavar="FILE", help="write all tests that are collected into this file")
    parser.addoption("--ground", metavar="FILE", help="the addresses of servers that run already (run/ground.py)")
    seeds.add_options(parser)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out of `items` what is not asked for; pytest counts it as deselected."""
    option = config.option
    if option.catalogue:
        write_catalogue(Path(option.catalogue), items)
    parts = parts_of(items)
    named = frozenset(Path(option.chosen).read_text(encoding="utf-8").splitlines()) if option.chosen else None

    def is_chosen(item: pytest.Item) -> bool:
        return (
            item.nodeid in named
            if named is not None
            else (
                (option.all or item.get_closest_marker("all") is None)
                and not (option.fast and (is_served(item) or item.get_closest_marker("slow") is not None))
                and (option.part is None or parts[item.path] in option.part)
            )
        )

    left = [item for item in items if not is_chosen(item)]
    config.stash[_LEFT] = sum(item.get_closest_marker("all") is not None for item in left if not option.all)
    items[:] = [item for item in items if is_chosen(item)]
    config.hook.pytest_deselected(items=left)
    if option.fast:
        refuse_servers()


_LEFT = pytest.StashKey[int]()


def pytest_report_collectionfinish(config: pytest.Config) -> str | None:
    """What pytest's own word "deselected" leaves open."""
    count = config.stash.get(_LEFT, 0)
    return (
        f"{count} of the deselected are played with --all" if count and not (config.option.part or config.option.chosen) else None
    )


def refuse_servers() -> None:
    """From now on, what starts a server in this process raises; it cannot be taken back."""

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            command = [arguments[0], *arguments[1]] if isinstance(arguments[1], (list, tuple)) else [arguments[0]]
            if found := _SERVERS & {Path(str(part)).name for part in command if part}:
                raise RuntimeError(f"--fast starts no {min(found)}: mark this test with pytest.mark.service")

    sys.addaudithook(refuse)
