"""The whole embedded stack for tests: on free ports, in a temporary CDC_HOME, stopped and removed afterwards (also on Ctrl-C).

Use it by `from cdc_assets_tests.support.stack_fixture import stack` in a conftest.py. The addresses are in `os.environ`
while it runs.
`--stack-home` names the home of a stack that runs already; then that one is used and left alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc_assets.stack import supervisor
from cdc_assets.stack.component_plan import EXTERNAL, load
from cdc_assets.stack.examples.example_sources import load_examples
from cdc_assets.stack.home import Home, read_json


@dataclass(frozen=True)
class RunningStack:
    """A healthy stack."""

    home: Home

    @property
    def environment(self) -> dict[str, str]:
        """Its addresses."""
        return dict(read_json(self.home.stack)["environment"])


@contextmanager
def environment_of(home: Home) -> Iterator[None]:
    """`os.environ` knows this stack, and no other one."""
    before = dict(os.environ)
    for name in (
        *EXTERNAL,
        "CDC_POSTGRES_PORT",
        "CDC_SOURCES",
        "CDC_DEFINITIONS",
        "CDC_LAKE",
        "CDC_CONNECT_SECRETS",
        "CDC_CONNECT_BOUND",
        "DAGSTER_HOME",
    ):
        os.environ.pop(name, None)
    os.environ["CDC_HOME"] = str(home.root)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[RunningStack]:
    """Started once for all tests that ask for it; that of the end-to-end tests, where those are played as well."""
    shared = pytestconfig.option.stack_home
    if any("lakehouse" in getattr(item, "fixturenames", ()) for item in request.session.items):
        shared = request.getfixturevalue("lakehouse").home
    if shared:
        home = Home(Path(shared))
        with environment_of(home):
            os.environ.update(RunningStack(home).environment)
            yield RunningStack(home)
        return
    with tempfile.TemporaryDirectory(prefix="cdc-stack-") as folder:
        home = Home(Path(folder) / "home")
        with environment_of(home):
            supervisor.fetch_jars(supervisor.missing_jars())
            try:
                supervisor.start(home)
                supervisor.wait_healthy(home, seen=lambda _: None)
                load_examples(load(home))
                os.environ.update(RunningStack(home).environment)
                yield RunningStack(home)
            finally:
                supervisor.stop(home, discard=True)
