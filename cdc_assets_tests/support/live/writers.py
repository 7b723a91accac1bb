"""Two writers beside a test, until it has seen what it wants to see."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Write = Callable[[int, threading.Event], None]
"""Goes on until the event is set; each writer has a seed of its own."""


@contextmanager
def at_work(write: Write) -> Iterator[None]:
    """Both run within the block, and have ended behind it."""
    stop = threading.Event()
    writers = [threading.Thread(target=write, args=(seed, stop)) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stop.set()
        for writer in writers:
            writer.join()
