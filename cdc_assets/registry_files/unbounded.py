"""A file that says more than it holds: aliases of YAML that stand for one another, or brackets within brackets.

Twelve lines of nine aliases each stand for 9^12 values, which nobody could look at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent

MOST_VALUES, DEEPEST = 200_000, 50
TOO_DEEP = f"brackets within brackets, more than {DEEPEST} deep: no source is declared so"
_LOOP = "an alias that stands for what it is a part of"


def is_too_deep(events: Iterable[Any]) -> bool:
    """Whether a document's events go too deep; no more of them is read then. Loading it would take half a minute to fail."""
    depth = 0
    for event in events:
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            return True
    return False


def find_unbounded(document: Any) -> str:
    """Why the document is refused, empty where it is not. Each value is looked at once, however often it is named."""
    sizes: dict[int, int] = {}
    waiting: list[tuple[Any, int, bool]] = [(document, 1, False)]
    above: set[int] = set()
    while waiting:
        node, depth, is_done = waiting.pop()
        if is_done:
            above.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes.get(id(child), 1) for child in _children(node))
            if sizes[id(node)] > MOST_VALUES:
                return f"its aliases stand for more than {MOST_VALUES:,} values: write them out, or fewer"
            continue
        if id(node) in above:
            return _LOOP
        if id(node) in sizes or not _children(node):
            continue
        if depth > DEEPEST:
            return TOO_DEEP
        above.add(id(node))
        waiting.append((node, depth, True))
        waiting += [(child, depth + 1, False) for child in _children(node)]
    return ""


def _children(node: Any) -> list[Any]:
    return [*node.values()] if isinstance(node, dict) else [*node] if isinstance(node, list) else []
