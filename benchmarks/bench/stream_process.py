"""`cdc stream` of an example source as a process of its own, for as long as something is measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.bench.errors import BenchError

_END_SECONDS = 90.0


@contextmanager
def stream_of(source: str) -> Iterator[None]:
    """It is asked to end afterwards, as by SIGTERM.

    Raises:
        BenchError: it ended before, or not as it should.
    """
    command = [sys.executable, "-m", "cdc_assets.cli", "stream", source]
    process = subprocess.Popen(command, stdout=sys.stderr)
    try:
        yield
        ended = process.poll()
    finally:
        process.terminate()
        code = process.wait(_END_SECONDS)
    if ended is not None or code:
        raise BenchError(f"cdc stream {source} ended with {code}, see above")
