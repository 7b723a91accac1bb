"""What of a source can be kept or removed, each by one word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdc_assets.errors import RemovalError

GO = ("connector", "slot", "publication", "tables", "mirror", "registry")
"""What goes unless it is kept: it costs the source, or it would make again what is removed."""
STAY = ("topics", "lake", "backup")
"""What stays unless it is named: data, which nobody can bring back."""
WORDS = (*GO, *STAY)
AT_SOURCE = ("slot", "publication", "tables")


@dataclass(frozen=True)
class PartsChosen:
    """What is to go. `kept` and `deleted` are the words that were given."""

    gone: frozenset[str]
    kept: frozenset[str]
    deleted: frozenset[str]

    @classmethod
    def of(cls, keep: Iterable[str], delete: Iterable[str]) -> PartsChosen:
        """From lists of words, each item one word or several with commas.

        Raises:
            RemovalError: a word that there is not, or one that is in both lists.
        """
        kept, deleted = _words(keep), _words(delete)
        if unknown := sorted((kept | deleted) - set(WORDS)):
            raise RemovalError(f"{', '.join(unknown)}: there is no such part of a source; there are: {', '.join(WORDS)}")
        if both := sorted(kept & deleted):
            raise RemovalError(f"{', '.join(both)}: --keep and --delete both name it")
        return cls(frozenset((set(GO) - kept) | deleted), kept, deleted)


def _words(given: Iterable[str]) -> frozenset[str]:
    return frozenset(word.strip() for text in given for word in text.split(",") if word.strip())
