"""Rows for people and programs: aligned text, wide text, JSON, YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any

import typer

from cdc_assets.registry.display_text import is_active, visible


class Format(str, Enum):
    """Forms of an answer."""

    text = "text"
    wide = "wide"
    json = "json"
    yaml = "yaml"


Output = Annotated[Format, typer.Option("--output", "-o", help="text, wide, json or yaml")]


def is_data(output: str) -> bool:
    """Whether it is for programs; else lines for people, of which `wide` has more where there are more."""
    return output in (Format.json, Format.yaml)


def print_rows(rows: Sequence[Mapping[str, Any]], output: Format, *, narrow: Sequence[str]) -> None:
    """Text shows the `narrow` columns, wide all of them."""
    if is_data(output):
        print_document([dict(row) for row in rows], output)
        return
    from rich.console import Console
    from rich.table import Table

    columns = narrow if output is Format.text else list(rows[0]) if rows else narrow
    console = Console(highlight=False)
    if not console.is_terminal:
        # For a pager or a ticket: no line is broken.
        console = Console(highlight=False, width=400)
    grid = Table(*(visible(column.upper()) for column in columns), box=None, pad_edge=False)
    for row in rows:
        grid.add_row(*("" if row[column] is None else visible(row[column]) for column in columns))
    console.print(grid, markup=False) if rows else print("nothing found", file=sys.stderr)


def to_json(document: Any, indent: int | None = None) -> str:
    """JSON in which a terminal finds nothing to act on: escaped as JSON has it, so that a program reads the same text."""
    return json.dumps(document, indent=indent, default=str).replace("\x7f", "\\u007f")


def print_document(document: Any, output: str) -> None:
    """JSON, or YAML for all other formats."""
    if output == Format.json:
        print(to_json(document, indent=2))
        return
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 400
    text = json.dumps(document, default=str, ensure_ascii=False)
    yaml.allow_unicode = not is_active(text)
    yaml.dump(json.loads(text), sys.stdout)
