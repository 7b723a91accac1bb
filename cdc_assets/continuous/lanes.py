"""Work that may take long, each piece in a thread of its own: the loop goes on with the other tables meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from cdc_assets.continuous.pauses import Place

Answer = TypeVar("Answer")


class Lanes(Generic[Answer]):
    """At most so many at a time. The threads are daemons: a process that ends does not wait for what Spark is still doing."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._threads: dict[Place, threading.Thread] = {}
        self._done: dict[Place, Answer | Exception] = {}

    @property
    def places(self) -> frozenset[Place]:
        """What is under way, or done and not taken."""
        return frozenset(self._threads)

    @property
    def has_ended(self) -> bool:
        """Whether there is an answer to take."""
        return any(not thread.is_alive() for thread in self._threads.values())

    @property
    def is_full(self) -> bool:
        """Whether the next one has to wait."""
        return len(self._threads) >= self._most

    def start(self, place: Place, work: Callable[[], Answer]) -> None:
        """Begin; the place must not be under way."""

        def lane() -> None:
            try:
                self._done[place] = work()
            except Exception as error:  # noqa: BLE001 - whoever takes the answer tells it
                self._done[place] = error

        thread = threading.Thread(target=lane, name="/".join(place), daemon=True)
        self._threads[place] = thread
        thread.start()

    def take(self) -> dict[Place, Answer | Exception]:
        """What has ended since the last time: its answer, or what it raised."""
        ended = [place for place, thread in self._threads.items() if not thread.is_alive()]
        for place in ended:
            del self._threads[place]
        return {place: self._done.pop(place) for place in ended}

    def join(self, seconds: float) -> bool:
        """Wait for all of them, so long at most; whether all have ended."""
        until = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads.values())
