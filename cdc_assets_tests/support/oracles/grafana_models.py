"""What Grafana's own models of a dashboard say against one: what they do not know, and what has another type.

`from_json` of the models is lenient. What it does not know it leaves out, and it takes a text for a number. So the dashboard is
written again of the models, and what is lost is a fault. The types are those that the models declare of their fields.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery, panelcfg_config
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard, FieldConfig, Panel

_UNITS = {value for name, value in vars(units).items() if not name.startswith("_") and isinstance(value, str)}


def dashboard_faults(read: dict[str, Any]) -> list[str]:
    """One line for each, with the place. Empty: Grafana knows all of it."""
    plugins.register_default_plugins()
    read = {**read, "panels": [*read["panels"], *_overridden(read["panels"])]}
    try:
        dashboard = Dashboard.from_json(read)
    except (AttributeError, KeyError, TypeError, ValueError) as refusal:
        return [f"Grafana's models do not read it: {refusal!r}"]
    again = json.loads(JSONEncoder().encode(dashboard))
    return [*_lost(read, again, ""), *_unfit(dashboard, (Dashboard,), "")]


def _overridden(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each override as if it were the panel's default: what is overridden has a name and any value, for the models."""
    for panel in panels:
        for override in panel.get("fieldConfig", {}).get("overrides", ()):
            defaults: dict[str, Any] = {}
            for each in override["properties"]:
                *way, last = each["id"].split(".")
                inner = defaults.setdefault(way[0], {}) if way else defaults
                inner[last] = each["value"]
            yield {**panel, "fieldConfig": {"defaults": defaults, "overrides": []}}


def _lost(given: Any, again: Any, place: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(again, dict):
        for name, value in given.items():
            if name in again:
                yield from _lost(value, again[name], f"{place}/{name}")
            else:
                yield f"{place}/{name}: nothing of Grafana's has this name"
    elif isinstance(given, list) and isinstance(again, list) and len(given) == len(again):
        for number, (one, other) in enumerate(zip(given, again, strict=True)):
            yield from _lost(one, other, f"{place}/{number}")
    elif given != again:
        yield f"{place}: {given!r} became {again!r}"


def _unfit(value: Any, hints: tuple[Any, ...], place: str) -> Iterator[str]:
    """What is of none of the types that a model declares; a union is given as its members."""
    allowed = [each for hint in hints for each in (get_args(hint) if get_origin(hint) is Union else (hint,))]
    if hasattr(value, "to_json"):
        yield from _unknown(value, place)
        for name, hint in get_type_hints(type(value)).items():
            yield from _unfit(getattr(value, name), (hint,), f"{place}/{name}")
    elif object in allowed or Any in allowed:
        return
    elif isinstance(value, list | dict) and any(get_origin(each) is type(value) for each in allowed):
        inner = tuple(get_args(each)[-1] for each in allowed if get_origin(each) is type(value))
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _unfit(each, inner, f"{place}/{name}")
    elif not any(_is_of(value, each) for each in allowed):
        yield f"{place}: {value!r} is none of {allowed}"


def _unknown(model: Any, place: str) -> Iterator[str]:
    """What the models carry along without knowing it."""
    if isinstance(model, Panel) and panelcfg_config(model.type_val) is None:
        yield f"{place}: Grafana has no panel of type {model.type_val!r}"
    if isinstance(model, FieldConfig) and model.unit is not None and model.unit not in _UNITS:
        yield f"{place}: Grafana has no unit {model.unit!r}"
    if isinstance(model, UnknownDataquery):
        yield f"{place}: Grafana has no such query: {model.data}"


def _is_of(value: Any, allowed: Any) -> bool:
    if get_origin(allowed) is Literal:
        return value in get_args(allowed)
    if isinstance(allowed, type) and issubclass(allowed, enum.Enum):
        return value in {each.value for each in allowed} and not isinstance(value, bool)
    if allowed is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is allowed or (allowed is str and isinstance(value, enum.StrEnum))
