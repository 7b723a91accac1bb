"""What stands around a verb: what it works with, and the errors that it ends with.

`verb` makes a command of a function: sources are looked up by their names, the platform is opened, options that belong together
are one parameter. Exit code 1 is a finding of the verb; what keeps it from finding anything is exit code 2.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

import typer

from cdc_assets.cli.declared_sources import ChosenSources, chosen_sources, complete_source
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import settings
from cdc_assets.registry.errors import ON_PURPOSE
from cdc_assets.registry.source_declaration import BaseSource

Answer = TypeVar("Answer")
# The type of a parameter; a test puts a function in the place of `Platform`, which opens another one.
_PLATFORM = Platform


def verb(*, failure: int = 1, lake: bool = False) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Make a function a verb: typer's view of it is made of the types of its parameters.

    * A `Chain` is shown as the name of its source, `ChosenSources` as names: without any all sources.
    * `Platform` is not shown: it is opened.
    * A dataclass stands for its fields: each is an option, at the parameter's place.

    `failure`: the exit code of whatever keeps the verb from its answer; 2 where 1 is a finding. `lake`: the verb reads tables or
    stores by vendors' SDKs, which find the stack's addresses in the environment.
    """

    def decorate(command: Callable[..., Answer]) -> Callable[..., Answer]:
        hints = get_type_hints(command, include_extras=True)
        parameters = list(_typer_parameters(command, hints))
        signature = inspect.Signature(parameters)

        @wraps(command)
        def call(*values: Any, **options: Any) -> Answer:
            with report_errors() if failure == 2 else nullcontext():
                bound = signature.bind(*values, **options)
                bound.apply_defaults()
                if lake:
                    settings.export_stack_environment()
                return command(**{name: _value(name, hint, bound.arguments) for name, hint in hints.items() if name != "return"})

        shown: Any = call
        shown.__signature__ = signature
        shown.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return decorate


OneChain = Annotated[Chain[BaseSource], typer.Argument(help="The source's name in the registry.", autocompletion=complete_source)]
"""The named source on its platform."""
_SOURCE = "source"


def _type_of(hint: Any) -> Any:
    return get_origin(hint.__origin__) or hint.__origin__ if hasattr(hint, "__metadata__") else hint


def _typer_parameters(command: Callable[..., Any], hints: dict[str, Any]) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        kind = _type_of(hint)
        if kind is _PLATFORM:
            continue
        if kind is Chain:
            yield parameter.replace(name=_SOURCE, annotation=hint.copy_with((str,)))
        elif kind is ChosenSources:
            yield parameter.replace(annotation=hint.copy_with((list[str] | None,)), default=None)
        elif is_dataclass(kind):
            types = get_type_hints(kind, include_extras=True)
            for field in fields(kind):
                yield inspect.Parameter(field.name, parameter.kind, default=field.default, annotation=types[field.name])
        else:
            yield parameter.replace(annotation=hint)


def _value(name: str, hint: Any, options: dict[str, Any]) -> Any:
    kind: Any = _type_of(hint)
    if kind is _PLATFORM:
        return Platform()
    if kind is Chain:
        (source,) = chosen_sources([options[_SOURCE]])
        return Chain(Platform(), source)
    if kind is ChosenSources:
        sources = ChosenSources(chosen_sources(options[name] or ()))
        sources.are_named = bool(options[name])
        return sources
    group = fields(kind) if is_dataclass(kind) else ()
    return kind(**{field.name: options[field.name] for field in group}) if group else options[name]


@contextmanager
def report_errors() -> Iterator[None]:
    """Whatever ends the block is told, and becomes exit code 2; a fault of ours with its stack trace. Raises typer.Exit: 2."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except ON_PURPOSE as error:
        if os.environ.get("CDC_DEBUG"):
            traceback.print_exc()
        print(f"cdc: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    except Exception as error:
        # Python's own exit code for it is 1, which says here that something differs.
        traceback.print_exc()
        raise typer.Exit(2) from error


def say(text: str) -> None:
    """A line for people, while data goes to standard output."""
    print(text, file=sys.stderr, flush=True)
