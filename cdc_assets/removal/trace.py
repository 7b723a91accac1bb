"""What a source's database keeps for us, and how it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Trace:
    """One object of the source. `word`: see removal.words; `statement` removes it, for whoever may; `ours`: we have made it.

    `costs`: somebody has to remove it. What costs nothing may stay, and is told all the same.
    """

    word: str
    what: str
    statement: str
    ours: bool = True
    costs: bool = True

    def to_json(self) -> dict[str, Any]:
        """Its word, name and statement, for programs."""
        return {"word": self.word, "what": self.what, "statement": self.statement}


class Traces(Protocol):
    """What is ours in one source's database: found, and removed."""

    @property
    def place(self) -> str:
        """Its address, for messages."""

    def find(self) -> list[Trace]:
        """What is there, in the order in which it can go.

        Raises:
            DatabaseError: the server cannot be asked.
        """

    def drop(self, trace: Trace) -> bool:
        """Remove it; False where the role may not.

        Raises:
            DatabaseError: the server cannot be asked, or something still uses it.
        """
