"""Topics that take rows, changes and removals at a steady rate: two inserts, six updates and two deletes of ten events."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

from typing_extensions import override

from benchmarks.bench.events import event_text, key_text
from benchmarks.bench.feed import Feed, Sender

_OPS = "cuuducuudu"
_SLICE_SECONDS = 0.05


class MixedFeed(Feed):
    """One topic whose keys come and go; the number of its rows stays as it was."""

    def __init__(self, sender: Sender, topic: str, rows: int) -> None:
        super().__init__(sender, topic, rows)
        self._live = list(range(rows))
        self._changed = 0

    @property
    @override
    def expected(self) -> tuple[int, int]:
        return len(self._live), sum(self._balances[aid] for aid in self._live)

    def mix(self, number: int) -> None:
        """So many more events."""
        self._sender.send(self.topic, self._next_events(number), flush=False)

    def _next_events(self, number: int) -> Iterator[tuple[str, str]]:
        live, pick = self._live, random.Random(f"{self.topic}-{self._sent}")
        for _ in range(number):
            op = _OPS[self._changed % len(_OPS)]
            self._changed += 1
            place = int(pick.random() * len(live))
            if op == "c":
                aid = len(self._balances)
                self._balances.append(0)
                live.append(aid)
            elif op == "d":
                aid, live[place] = live[place], live[-1]
                live.pop()
            else:
                aid = live[place]
            balance = self._balances[aid] = int(pick.random() * 10_000)
            yield key_text(aid), event_text(op, aid, balance, self._sent)
            self._sent += 1


def send_steadily(feeds: Sequence[MixedFeed], sender: Sender, rate: float, seconds: float) -> float:
    """So many events a second, shared by all feeds, for so long; by how many seconds the last of them were late.

    Small slices go to one topic after the other, so that each has news at any moment.
    """
    began, sent, total = time.monotonic(), 0, int(rate * seconds)
    while sent < total:
        due = min(total, int(rate * (time.monotonic() - began)))
        if due == sent:
            time.sleep(_SLICE_SECONDS / 5)
            continue
        for number, feed in enumerate(feeds):
            share = due * (number + 1) // len(feeds) - due * number // len(feeds)
            share -= sent * (number + 1) // len(feeds) - sent * number // len(feeds)
            if share:
                feed.mix(share)
        sent = due
        sender.poll()
        time.sleep(_SLICE_SECONDS)
    sender.flush()
    return time.monotonic() - began - seconds
