"""Envelopes by the name that a spec and a registry file use."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from spark.envelopes.envelope import Envelope
from spark.errors import SpecError
from spark.kinds.envelopes import ENVELOPES


@cache
def envelope(name: str) -> Envelope:
    """The envelope of that name.

    Raises:
        SpecError: naming the known ones.
    """
    if name not in ENVELOPES:
        raise SpecError(f"envelope {name!r} is not known; known are {', '.join(sorted(ENVELOPES))}")
    module, _, attribute = ENVELOPES[name].place.partition(":")
    found: Envelope = getattr(import_module(f"..{module}", __package__), attribute)()
    return found
