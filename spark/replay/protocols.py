"""The features of Delta that a table has once it holds what another one had: those of both.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#valid-feature-names-in-table-features
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMED_READERS, _NAMED_WRITERS = 3, 7
"""The versions from which on features are named one by one."""
_BY_WRITER = {2: ("appendOnly", "invariants"), 3: ("checkConstraints",), 4: ("changeDataFeed", "generatedColumns")}
_BY_WRITER |= {5: ("columnMapping",), 6: ("identityColumns",)}
_BY_READER = {2: ("columnMapping",)}


def join_protocols(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The lowest protocol that covers both; an empty one is that of no table."""
    if not one or not other:
        return dict(one or other)
    reader, writer = (max(int(each[name]) for each in (one, other)) for name in ("minReaderVersion", "minWriterVersion"))
    joined: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if writer < _NAMED_WRITERS:
        return joined
    readers = _features(one, "reader", _BY_READER) | _features(other, "reader", _BY_READER)
    writers = _features(one, "writer", _BY_WRITER) | _features(other, "writer", _BY_WRITER) | readers
    if reader >= _NAMED_READERS:
        joined["readerFeatures"] = sorted(readers)
    joined["writerFeatures"] = sorted(writers)
    same = next((each for each in (one, other) if _as_sets(each) == _as_sets(joined)), joined)
    return dict(same)


def _features(protocol: Mapping[str, Any], who: str, by_version: Mapping[int, tuple[str, ...]]) -> set[str]:
    named = protocol.get(f"{who}Features")
    if named is not None:
        return set(named)
    version = int(protocol[f"min{who.title()}Version"])
    return {feature for since, features in by_version.items() if since <= version for feature in features}


def _as_sets(protocol: Mapping[str, Any]) -> dict[str, Any]:
    return {name: set(value) if isinstance(value, list) else value for name, value in protocol.items()}
