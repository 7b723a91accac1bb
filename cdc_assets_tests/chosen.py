"""Which tests a run plays: `--fast`, the default, or `--all`; of those a part (parts.py), or a shard.

What is marked `all` takes minutes, or needs a server that nobody brings. What is marked `service`, or asks for a fixture that
starts something, is not for `--fast`; a test that starts a server all the same fails there. Nor is what is marked `slow`.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cdc_assets_tests.hostile import seeds
from cdc_assets_tests.parts import PARTS, is_elsewhere, is_served, parts_of

_SERVERS = frozenset({"java", "postgres", "initdb", "pg_ctl", "mariadbd", "mariadb-install-db", "mysqld", "chromium"})

_TEST = re.compile(r"^def test_", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--fast`, `--all`, `--part NAME` and `--shard I-of-N`, and which worlds of the hostile workload."""
    parser.addoption("--fast", action="store_true", help="only tests that start no service and no JVM, and take no seconds")
    parser.addoption("--all", action="store_true", help="also tests that take minutes, and those of servers that nobody brings")
    text = "only the tests of this part of the suite (cdc_assets_tests/parts.py); may be given more than once"
    home = "the home of a stack that runs already: the folders stack and e2e use it, and leave it alone"
    parser.addoption("--stack-home", metavar="FOLDER", help=home)
    parser.addoption("--part", choices=PARTS, action="append", help=text)
    parser.addoption("--shard", metavar="I-of-N", help="only the I-th of N shares of the test files")
    seeds.add_options(parser)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders without a test of the parts that are asked for, and files of other shards: to import a file takes longer than most
    of its tests."""
    if config.option.part and is_elsewhere(collection_path, config.option.part):
        return True
    if config.option.shard and collection_path.suffix == ".py":
        return collection_path not in _shard(config.option.shard, tuple(config.args)) or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out of `items` what is not asked for; pytest counts it as deselected."""
    option = config.option
    parts = parts_of(items)

    def is_chosen(item: pytest.Item) -> bool:
        return (
            (option.all or item.get_closest_marker("all") is None)
            and not (option.fast and (is_served(item) or item.get_closest_marker("slow") is not None))
            and (option.part is None or parts[item.path] in option.part)
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
    return f"{count} of the deselected are played with --all" if count and not config.option.part else None


def refuse_servers() -> None:
    """From now on, what starts a server in this process raises; it cannot be taken back."""

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            command = [arguments[0], *arguments[1]] if isinstance(arguments[1], (list, tuple)) else [arguments[0]]
            if found := _SERVERS & {Path(str(part)).name for part in command if part}:
                raise RuntimeError(f"--fast starts no {min(found)}: mark this test with pytest.mark.service")

    sys.addaudithook(refuse)


@cache
def _shard(text: str, folders: tuple[str, ...]) -> frozenset[Path]:
    """The test files of one share: whole files, since fixtures are theirs, the largest first to the smallest share."""
    number, of = map(int, text.split("-of-"))
    found = [path for folder in folders for path in Path(folder).absolute().rglob("test_*.py")]
    sizes = {path: len(_TEST.findall(path.read_text(encoding="utf-8"))) for path in found}
    shares: list[list[Path]] = [[] for _ in range(of)]
    for path in sorted(sizes, key=lambda path: (-sizes[path], path)):
        min(shares, key=lambda share: sum(sizes[p] for p in share)).append(path)
    return frozenset(shares[number - 1])
