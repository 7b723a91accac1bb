"""Kinds of sources by the name that a spec and a registry file use."""

from __future__ import annotations

from importlib import import_module

from pyspark.sql import Column

from spark.errors import SpecError
from spark.kinds.positions import PLACES
from spark.positions.source_connector import Connector


def connector(name: str) -> Connector:
    """The kind of source of that name.

    Raises:
        SpecError: naming the known ones.
    """
    if name not in PLACES:
        raise SpecError(f"connector {name!r} is not known; known are {', '.join(sorted(PLACES))}")
    module, _, attribute = PLACES[name].partition(":")
    found: Connector = getattr(import_module(f"..{module}", __package__), attribute)
    return found


def write_of(position: Column, name: str) -> Column:
    """The write of a source of this kind that a position is of."""
    return connector(name).write(position)
