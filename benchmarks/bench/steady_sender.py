"""The process that sends a steady load: beside the one that carries it, as a source's connector is.

`python -m benchmarks.bench.steady_sender TOPIC_PREFIX TABLES ROWS` makes the topics with a first load and answers
`{"topics": [...]}`. Each line `{"rate": events a second, "seconds": s}` on stdin sends so much, and answers `{"late_s": s,
"totals": [[rows, sum], ...]}`. It ends with its stdin.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from benchmarks.bench.errors import BenchError

_ENDS_WITHIN = 30.0


@dataclass(frozen=True)
class Sent:
    """How late the last events were, in seconds, and what every table must hold: rows, and the sum of their balances."""

    late: float
    totals: list[tuple[int, int]]


class SteadySender:
    """The other side of the process: asks, and reads its answers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._asked, self._told = process, process.stdin, process.stdout
        self.topics: list[str] = self._answer()["topics"]

    def begin(self, rate: float, seconds: float) -> None:
        """It sends from now on; `await_end` tells when it has sent everything."""
        self._asked.write(json.dumps({"rate": rate, "seconds": seconds}) + "\n")
        self._asked.flush()

    def await_end(self) -> Sent:
        """Once everything is in the topics."""
        answer = self._answer()
        return Sent(float(answer["late_s"]), [(int(rows), int(total)) for rows, total in answer["totals"]])

    def _answer(self) -> Any:
        line = self._told.readline()
        if not line:
            raise BenchError(f"the sender of the steady load ended with {self._process.wait()}, see above")
        return json.loads(line)


@contextmanager
def steady_sender(prefix: str, tables: int, rows: int) -> Iterator[SteadySender]:
    """The process, for as long as something is measured.

    Raises:
        BenchError: it ended by itself.
    """
    command = [sys.executable, "-m", "benchmarks.bench.steady_sender", prefix, str(tables), str(rows)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield SteadySender(process)
    finally:
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answer_lines(asked: IO[str], told: IO[str], prefix: str, tables: int, rows: int) -> None:
    """Until the lines end."""
    from benchmarks.bench.feed import Sender
    from benchmarks.bench.mixed_feed import MixedFeed, send_steadily
    from cdc_assets.clients.platform import Platform

    sender = Sender(Platform().lake_kafka())
    feeds = [MixedFeed(sender, f"{prefix}-{number}", rows) for number in range(tables)]
    for feed in feeds:
        feed.create()
    print(json.dumps({"topics": [feed.topic for feed in feeds]}), file=told, flush=True)
    for line in asked:
        wanted = json.loads(line)
        late = send_steadily(feeds, sender, wanted["rate"], wanted["seconds"])
        print(json.dumps({"late_s": late, "totals": [feed.expected for feed in feeds]}), file=told, flush=True)


if __name__ == "__main__":
    answer_lines(sys.stdin, sys.stdout, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
