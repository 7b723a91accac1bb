"""Kinds of sources by the name that a spec and a registry file use."""

from __future__ import annotations

from spark.errors import SpecError
from spark.positions.connector import Connector
from spark.positions.postgresql import POSTGRESQL

CONNECTORS = {c.name: c for c in (POSTGRESQL,)}


def connector(name: str) -> Connector:
    """The kind of source of that name.

    Raises:
        SpecError: naming the known ones.
    """
    if name not in CONNECTORS:
        raise SpecError(f"connector {name!r} is not known; known are {', '.join(sorted(CONNECTORS))}")
    return CONNECTORS[name]
