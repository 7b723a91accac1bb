"""docs/reference/registry.md, from the models: `python -m cdc_assets.registry.registry_page > docs/reference/registry.md`.

A model's section is its docstring, and a row per key with its type and default. A test compares the page with the models.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from cdc_assets.registry.databases import DatabaseKind
from cdc_assets.registry.field_types import format_duration
from cdc_assets.registry.kind_models import model_of
from cdc_assets.registry.kinds import KINDS
from cdc_assets.registry.references import EnvRef, SecretRef, WorkerFile, WorkerVariable
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource, TopicSource
from cdc_assets.registry.table_declaration import DeclaredTable, Table, TableBackup, TopicTable

HEAD = """\
# Registry

```yaml
source: shop
database: {kind: postgresql, host: {env: SHOP_DB_HOST}, dbname: shop, user: cdc, password: {secret: shop_db_password}}
tables:
  - {name: public.orders}
```

Each source is one YAML file. This page is generated from the models that read it: run
`python -m cdc_assets.registry.registry_page`. `cdc validate` refuses an unknown key by file
and line.

A *duration* is a number and a unit: `500ms`, `30s`, `5m`, `1h30m` or `7d`. A *variable* is
`{env: NAME}`: its value comes from the environment when it is needed. `{env: NAME, default: …}` has
a value for the case that nobody sets it. A *secret* is `{secret: name}`: see [secret](#secret).
"""
DECLARED = [row.name for row in KINDS.values() if row.has_database and not row.tells_place]


def _in_words(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


_SECTIONS: tuple[tuple[str, type[BaseModel], type[BaseModel] | None], ...] = (
    ("A source", BaseSource, None),
    ("A source with a database", CapturedSource, BaseSource),
    ("A source of topics", TopicSource, BaseSource),
    *((f"database: kind {row.name}", model_of(row.name), None) for row in KINDS.values() if row.has_database),
    ("tables", Table, None),
    (f"tables of {_in_words(DECLARED)}", DeclaredTable, Table),
    ("tables of topics", TopicTable, DeclaredTable),
    ("backup of a table", TableBackup, None),
    ("secret", SecretRef, None),
)
_WORDS = {str: "text", int: "whole number", bool: "true or false", date: "date", timedelta: "duration", EnvRef: "variable"}
_INLINE = {WorkerFile: "`{file: /path, key: name}`", WorkerVariable: "`{env: NAME}`"}
_WIDTH = 100
_PAGE = re.compile(r"docs/(?:reference/)?((?:[\w-]+/)?)([\w-]+\.md)")


def registry_page() -> str:
    """The whole page, as Markdown text."""
    models = {model for _, model, _ in _SECTIONS}
    sections = list(_SECTIONS)
    for _, model, parent in sections:
        for name, field in model.model_fields.items():
            for nested in _models_in(field.annotation):
                if nested not in models | {EnvRef, DatabaseKind, *_INLINE} and not (parent and name in parent.model_fields):
                    models.add(nested)
                    sections.append((name, nested, None))
    titles = {model: title for title, model, _ in sections}
    return HEAD + "".join(_section(title, model, parent, titles) for title, model, parent in sections)


def _section(title: str, model: type[BaseModel], parent: type[BaseModel] | None, titles: dict[type[BaseModel], str]) -> str:
    rows_of_parent = {} if parent is None else {name: _row(name, field, titles) for name, field in parent.model_fields.items()}
    # The required keys come first.
    fields = sorted(model.model_fields.items(), key=lambda entry: not entry[1].is_required())
    rows = "".join(row for name, field in fields if (row := _row(name, field, titles)) != rows_of_parent.get(name))
    beside = f"\nIt has all keys of [{titles[parent]}]({_anchor(titles[parent])}), and those below.\n" if parent else ""
    return f"\n## {title}\n\n{_prose(model)}{beside}\n| key | value | default |\n|---|---|---|\n{rows}"


def _row(name: str, field: FieldInfo, titles: dict[type[BaseModel], str]) -> str:
    return f"| `{name}` | {_type(field.annotation, titles)} | {_default(field)} |\n"


def _prose(model: type[BaseModel]) -> str:
    # What a reader of the code needs, and a reader of the page does not.
    text = re.sub(r" See \w*Source.*", "", inspect.cleandoc(model.__doc__ or "").split("\n\n`captured`")[0])
    # Links to pages of docs, from the folder of this one.
    text = _PAGE.sub(lambda page: f"[{page[2]}]({'../' if page[1] else ''}{page[1]}{page[2]})", text)
    # A sentence that begins a line with a key begins an item.
    items = re.sub(r"(?<=[.:)])\n(?=`)|(?<=\n\n)(?=`)", "\n\n* ", text)
    parts = [
        textwrap.fill(paragraph, _WIDTH, subsequent_indent="  " * paragraph.startswith("* "), break_on_hyphens=False)
        for paragraph in re.split(r"\n\n+", items)
    ]
    return "\n\n".join(parts) + "\n"


def _type(annotation: Any, titles: dict[type[BaseModel], str]) -> str:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inside)
    if origin is Annotated:
        return _type(inside[0], titles)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(member, titles) for member in inside if member is not type(None)))
    if origin is tuple:
        return f"list of {_type(inside[0], titles)}"
    if origin is dict:
        return f"map of text to {_type(inside[1], titles)}"
    if annotation in titles:
        return f"[{titles[annotation]}]({_anchor(titles[annotation])})"
    if annotation is DatabaseKind:
        kinds = [title for title in titles.values() if title.startswith("database:")]
        return ", ".join(f"[{title.split()[-1]}]({_anchor(title)})" for title in kinds)
    return _WORDS.get(annotation) or _INLINE[annotation]


def _default(field: FieldInfo) -> str:
    value = field.default
    if field.default_factory is not None:
        return ""
    if value is PydanticUndefined:
        return "required"
    if value is None or value == () or isinstance(value, BaseModel):
        return ""
    if isinstance(value, timedelta):
        return f"`{format_duration(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for inside in get_args(annotation):
        yield from _models_in(inside)


def _anchor(title: str) -> str:
    return "#" + "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


if __name__ == "__main__":
    print(registry_page(), end="")
