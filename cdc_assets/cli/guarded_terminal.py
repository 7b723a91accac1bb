"""What a terminal acts on is written out, whichever printer has let it through."""

from __future__ import annotations

import sys
from typing import Any

from cdc_assets.shown_text import on_terminal


class GuardedTerminal:
    """A text stream to a terminal; all but what is written is the stream's."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """The text, with nothing in it that is not ours to ask of a terminal."""
        return int(self._stream.write(on_terminal(text)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_terminal() -> None:
    """From now on; files and pipes get their bytes as they are."""
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is not None and stream.isatty():
            setattr(sys, name, GuardedTerminal(stream))
