"""Options of a command that belong together, as one dataclass with a name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

Answer = TypeVar("Answer")


def group_options(command: Callable[..., Answer]) -> Callable[..., Answer]:
    """Of a parameter whose type is a dataclass, typer sees the fields: each is an option, at the parameter's place."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def call(**given: Any) -> Answer:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        return command(**given)

    shown: Any = call
    parameters = list(_parameters(command, hints, groups))
    shown.__signature__ = inspect.Signature(parameters)
    shown.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": hints.get("return")}
    return call


def _parameters(command: Callable[..., Any], hints: dict[str, Any], groups: dict[str, Any]) -> Iterator[inspect.Parameter]:
    for each in inspect.signature(command).parameters.values():
        if each.name not in groups:
            yield each.replace(annotation=hints[each.name])
            continue
        group = groups[each.name]
        types = get_type_hints(group, include_extras=True)
        for field in fields(group):
            yield inspect.Parameter(field.name, each.kind, default=field.default, annotation=types[field.name])
