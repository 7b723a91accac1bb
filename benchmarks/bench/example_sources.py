"""The example sources of the embedded stack, written to as an application does."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

from benchmarks.bench.errors import BenchError
from cdc_assets.registry import settings
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import Source


def example_source(name: str) -> Source:
    """As its file declares it.

    Raises:
        BenchError: the stack has no such source.
    """
    found = next((source for source in load_sources(settings.sources_folder()) if source.name == name), None)
    if found is None or found.asked is None:
        raise BenchError(f"the stack has no example source {name}: measure without --here on a stack of its own")
    return found.asked


def connect_example(name: str) -> Any:
    """A connection to its database, each statement a transaction; its role may write there."""
    import psycopg

    database: Any = example_source(name).database
    return psycopg.connect(
        host=settings.resolve(database.host),
        port=settings.resolve(database.port),
        dbname=settings.resolve(database.dbname),
        user=settings.resolve(database.user),
        password=settings.secret(database.password),
        autocommit=True,
    )


def run_cdc(*arguments: str) -> None:
    """A verb, whose answer goes to stderr.

    Raises:
        BenchError: it fails.
    """
    command = [sys.executable, "-m", "cdc_assets.cli", *arguments]
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode:
        raise BenchError(f"cdc {textwrap.shorten(' '.join(arguments), 80)} ended with {done.returncode}, see above")
