"""For an error message: which keys would have been accepted at a place of the registry."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel


def accepted_values(model: type[BaseModel], loc: Sequence[int | str], error_type: str) -> str | None:
    """The keys accepted beside an unknown one at `loc` of `model`.

    Returns None for every other error type: pydantic's own message already lists literals and forms.
    """
    if error_type != "extra_forbidden":
        return None
    keys = sorted({key for owner in _models_at(model, loc[:-1]) for key in owner.model_fields})
    return ", ".join(keys) if keys else None


def _models_at(model: type[BaseModel], loc: Sequence[int | str]) -> Iterator[type[BaseModel]]:
    current: list[type[BaseModel]] = [model]
    for part in loc:
        if isinstance(part, int) or any(part == owner.__name__ for owner in current):
            continue
        following: list[type[BaseModel]] = []
        for owner in current:
            field = owner.model_fields.get(part)
            if field is not None:
                following.extend(_models_in(field.annotation))
        current = following or [owner for owner in current if _is_kind(owner, part)] or current
    yield from current


def _is_kind(owner: type[BaseModel], part: str) -> bool:
    """Of a union told apart by `kind`, the path names the one that is meant."""
    kind = owner.model_fields.get("kind")
    return kind is not None and part in get_args(kind.annotation)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, Annotated, tuple, list):
        for inner in get_args(annotation):
            yield from _models_in(inner)
