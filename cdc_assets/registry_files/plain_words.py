"""What pydantic finds wrong, in the words of somebody who writes a file or a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cdc_assets.quantity import quantity

Context = Mapping[str, Any]


def plain_words(found: Mapping[str, Any]) -> str:
    """One entry of `ValidationError.errors()` as a phrase without the value; pydantic's own where we have no better one."""
    say = _SAID.get(found["type"])
    return str(found["msg"]) if say is None else say(found.get("ctx") or {})


def _among(context: Context) -> str:
    return f"no such value; accepted: {str(context['expected']).replace(' or ', ', ').replace(chr(39), '')}"


def _at_least(context: Context) -> str:
    least = int(context["min_length"])
    return "must not be empty" if least == 1 else f"needs {quantity(least, 'entry')} or more"


def _always(text: str) -> Callable[[Context], str]:
    return lambda _: text


_SAID: Mapping[str, Callable[[Context], str]] = {
    "missing": _always("is missing"),
    "extra_forbidden": _always("unknown key"),
    "value_error": lambda context: str(context["error"]),
    "literal_error": _among,
    "enum": _among,
    "string_pattern_mismatch": lambda context: f"is not written as it must be: {context['pattern']}",
    "string_too_short": _at_least,
    "too_short": _at_least,
    "greater_than_equal": lambda context: f"must be {context['ge']:g} or more",
    "greater_than": lambda context: f"must be more than {context['gt']:g}",
    "less_than_equal": lambda context: f"must be {context['le']:g} or less",
    "less_than": lambda context: f"must be less than {context['lt']:g}",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float", "int_parsing_size"), _always("must be a whole number")),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), _always("must be a number")),
    **dict.fromkeys(("bool_parsing", "bool_type"), _always("must be true or false")),
    "string_type": _always("must be a text"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _always("must be a mapping (key: value)")),
    **dict.fromkeys(("tuple_type", "list_type", "iterable_type"), _always("must be a list")),
    "union_tag_not_found": lambda context: f"says no {context['discriminator']}".replace("'", ""),
}
