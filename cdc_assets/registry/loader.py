"""Reads the registry: a folder of YAML files, one per source, into frozen models.

Every finding of every file is collected before anything is raised, so that one call shows all that is wrong.
Needs no service and no network; secrets and addresses stay references.

Aliases of YAML that stand for one another, and brackets within brackets, are found before they are expanded: twelve lines of
nine aliases each stand for 9^12 values. YAML's escapes can write half a character, which UTF-8 cannot.
"""

from __future__ import annotations

import os
import re
import types
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent

from cdc_assets.registry.errors import RegistryError, RegistryFinding, plain_words
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import DATABASES, KINDS
from cdc_assets.registry.name_conflicts import Collision, find_collisions, find_unmirrored, find_unquotable
from cdc_assets.registry.source_declaration import BaseSource, TopicSource, source_model

Loc = tuple[int | str, ...]
_DOORS = ("database", *(name for name in KINDS if name not in DATABASES))
"""What `kind:` of a file may be."""
_UNION_MEMBER = re.compile(r"^(str|int|EnvRef|SecretRef|WorkerFile|WorkerVariable)$|\[")
"""What pydantic adds to a path, such as `function-after[_check_host(), str]`."""
REMOVED = ".removed"
"""How the name of a registry file ends that `cdc remove` has put aside."""


def _why_not(folder: Path) -> str:
    named = os.environ.get("CDC_SOURCES", "")
    if named and not Path(named).is_absolute() and Path(named).absolute() == folder:
        return f"no such folder; CDC_SOURCES={named} is looked for in the current folder, {Path.cwd()}: set it to the whole path"
    return "no such folder; set CDC_SOURCES to the folder of your sources"


def load_sources(folder: Path) -> tuple[BaseSource, ...]:
    """All sources declared in `folder` (`*.yaml`, `*.yml`), by name; none where all have been removed.
    Raises RegistryError: with every finding in every file."""
    if not folder.is_dir():
        raise RegistryError([RegistryFinding(folder, None, "", _why_not(folder))])
    files = registry_files(folder)
    if not files and not any(folder.glob(f"*{REMOVED}")):
        raise RegistryError([RegistryFinding(folder, None, "", "holds no *.yaml file; a source is one YAML file")])
    sources: list[BaseSource] = []
    findings: list[RegistryFinding] = []
    seen: dict[str, Path] = {}
    for file in files:
        try:
            source = load_source(file)
        except RegistryError as error:
            findings.extend(error.findings)
            continue
        if source.name in seen:
            line = _line_of(_parse(file), ("source",))
            findings.append(RegistryFinding(file, line, "source", f"{source.name!r} is already declared in {seen[source.name]}"))
        seen.setdefault(source.name, file)
        sources.append(source)
    # Two files of one source are told as that, and not by each of their names.
    distinct = list({source.name: source for source in reversed(sources)}.values())[::-1]
    findings += [_finding(seen[collision.later.source.name], collision) for collision in find_collisions(distinct)]
    if findings:
        raise RegistryError(findings)
    return tuple(sorted(sources, key=lambda source: source.name))


def registry_files(folder: Path) -> list[Path]:
    """The files that declare a source each, by name."""
    return sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])


def load_source(file: Path) -> BaseSource:
    """One registry file. Raises RegistryError: with every finding in it."""
    document = _parse(file)
    kind = document.get("kind", "database")
    if kind not in _DOORS:
        message = f"no such kind, got {kind!r}; accepted: {', '.join(_DOORS)}"
        raise RegistryError([RegistryFinding(file, _line_of(document, ("kind",)), "kind", message)])
    try:
        source = _model(document).model_validate(document)
    except ValidationError as error:
        raise RegistryError(_explain(file, document, error)) from None
    twice = list(_duplicates(file, document, source))
    findings = twice or [_finding(file, collision) for collision in find_collisions([source])]
    of_tables = (*find_unquotable(source), *find_unmirrored(source))
    findings += [_of_table(file, document, index, message) for index, message in of_tables]
    if findings:
        raise RegistryError(findings)
    return source


def _parse(file: Path) -> Any:
    stamp = file.stat() if file.is_file() else None
    if stamp is None:
        raise RegistryError([RegistryFinding(file, None, "", "no such file")])
    return _parse_version(file, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=256)
def _parse_version(file: Path, _mtime: int, _size: int) -> Any:
    yaml = YAML(typ="rt")  # round trip keeps line numbers, and refuses duplicate keys
    try:
        text = file.read_text(encoding="utf-8")
        if _is_too_deep(YAML(typ="safe", pure=True).parse(text)):
            raise RegistryError([RegistryFinding(file, None, "", _TOO_DEEP)])
        document = yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        problem = (error.problem or error.context or "not valid YAML").strip()
        raise RegistryError([RegistryFinding(file, line, "", f"not valid YAML: {problem}")]) from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise RegistryError([RegistryFinding(file, None, "", f"not valid YAML: {str(error).splitlines()[0]}")]) from None
    if not isinstance(document, dict):
        raise RegistryError([RegistryFinding(file, 1, "", "a source is a YAML mapping that starts with `source: name`")])
    if unbounded := _find_unbounded(document):
        raise RegistryError([RegistryFinding(file, None, "", unbounded)])
    broken = []
    for loc, message in _find_broken_texts(document):
        # Half characters as escapes, so that any terminal takes the path.
        path = ".".join(map(str, loc)).encode("utf-8", "backslashreplace").decode()
        broken.append(RegistryFinding(file, _line_of(document, loc), path, message))
    if broken:
        raise RegistryError(broken)
    return document


def _model(document: Any) -> type[BaseSource]:
    kind, database = document.get("kind", "database"), document.get("database")
    if kind not in KINDS and isinstance(database, dict):
        kind = database.get("kind")
    # Where no kind is known, the most common one says what is wrong.
    row = KINDS.get(kind, KINDS[DATABASES[0]]) if isinstance(kind, str) else KINDS[DATABASES[0]]
    return source_model(row) if row.has_database else TopicSource


def _explain(file: Path, document: Any, error: ValidationError) -> list[RegistryFinding]:
    findings: dict[str, RegistryFinding] = {}
    for item in error.errors(include_url=False):
        if item["type"] == "too_short" and item["input"]:
            continue  # what is wrong with its entries is told of each
        loc = _in_document(document, item["loc"])
        path = ".".join(str(key) for key in loc)
        # Somebody may have written a password, or an address with one.
        is_hidden = "password" in item["loc"] or "@" in str(item["input"])
        message = "must be {env: NAME}" if (item.get("ctx") or {}).get("class_name") == "EnvRef" else plain_words(item)
        if item["type"] == "union_tag_invalid" and loc == ("database",):
            loc, path = (*loc, "kind"), "database.kind"
            message = f"no such kind, got {item['input']['kind']!r}; accepted: {', '.join(DATABASES)}"
        elif item["type"] == "extra_forbidden":
            owners = _models_at(_model(document), item["loc"][:-1])
            if keys := sorted({key for owner in owners for key in owner.model_fields}):
                message = f"{message}; accepted: {', '.join(keys)}"
        elif item["type"] != "missing" and not (is_hidden or isinstance(item["input"], (dict, BaseModel))):
            fault, separator, values = message.partition("; accepted: ")
            message = f"{fault}, got {item['input']!r}{separator}{values}"
        findings.setdefault(f"{path}:{message}", RegistryFinding(file, _line_of(document, loc), path, message))
    return list(findings.values())


def _in_document(document: Any, loc: Sequence[int | str]) -> Loc:
    # Without what pydantic adds for members of a union: `host.EnvRef.env` is `host.env` in the file.
    kept: list[int | str] = []
    node = document
    for position, key in enumerate(loc):
        last = position == len(loc) - 1
        if _holds(node, key):
            node = node[key]
        elif not (last and isinstance(node, dict)) or _UNION_MEMBER.search(str(key)):
            continue
        kept.append(key)
    return tuple(kept)


def _line_of(document: Any, loc: Sequence[int | str]) -> int | None:
    """The line (from 1) of the key or item at `loc`, or of the nearest enclosing one."""
    line: int | None = None
    node = document
    for key in loc:
        marks = getattr(node, "lc", None)
        if marks is None:
            break
        data = marks.data or {}
        if key in data:
            line = data[key][0] + 1
        if not _holds(node, key):
            break
        node = node[key]
    return line


def _holds(node: Any, part: int | str) -> bool:
    if isinstance(node, dict):
        return part in node
    return isinstance(node, list) and isinstance(part, int) and part < len(node)


def _duplicates(file: Path, document: Any, source: BaseSource) -> Iterable[RegistryFinding]:
    seen: set[TableId] = set()
    for index, table in enumerate(source.tables):
        if table.id in seen:
            yield _of_table(file, document, index, f"table {table.name} is declared twice")
        seen.add(table.id)


def _of_table(file: Path, document: Any, index: int, message: str) -> RegistryFinding:
    return RegistryFinding(file, _line_of(document, ("tables", index, "name")), f"tables.{index}.name", message)


def _finding(file: Path, collision: Collision) -> RegistryFinding:
    document, index = _parse(file), collision.later.index
    block, _, key = collision.later.key.partition(".")
    declared = _holds(document, block) and _holds(document[block], key)
    loc: Loc = ("tables", index, "name") if index is not None else (block, key) if declared else ("source",)
    return RegistryFinding(file, _line_of(document, loc), ".".join(map(str, loc)), collision.message)


def _models_at(model: type[BaseModel], loc: Sequence[int | str]) -> Iterator[type[BaseModel]]:
    current: list[type[BaseModel]] = [model]
    for key in loc:
        if isinstance(key, int) or any(key == owner.__name__ for owner in current):
            continue
        following: list[type[BaseModel]] = []
        for owner in current:
            field = owner.model_fields.get(key)
            if field is not None:
                following.extend(_models_in(field.annotation))
        # Of a union told apart by `kind`, the path names the one that is meant.
        kinds = ((owner, owner.model_fields.get("kind")) for owner in current)
        current = following or [owner for owner, kind in kinds if kind and key in get_args(kind.annotation)] or current
    yield from current


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, Annotated, tuple, list):
        for inner in get_args(annotation):
            yield from _models_in(inner)


_HALF = re.compile(r"[\ud800-\udfff]")
_HALF_TEXT = (
    "holds half a character (a surrogate), got {!r}; no topic, file or database takes it: write the character itself, in UTF-8, "
    r"or as \UXXXXXXXX"
)


def _find_broken_texts(node: Any, loc: Loc = ()) -> Iterator[tuple[Loc, str]]:
    """Where such a key or value is, and why it is refused."""
    if isinstance(node, str):
        if _HALF.search(node):
            yield loc, _HALF_TEXT.format(str(node))
        return
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        if isinstance(key, str) and _HALF.search(key):
            yield (*loc, key), _HALF_TEXT.format(str(key))
        else:
            yield from _find_broken_texts(value, (*loc, key))


_MOST_VALUES, _DEEPEST = 200_000, 50
_TOO_DEEP = f"brackets within brackets, more than {_DEEPEST} deep: no source is declared so"
_LOOP = "an alias that stands for what it is a part of"


def _is_too_deep(events: Iterable[Any]) -> bool:
    """Whether a document's events go too deep; no more of them is read then. Loading it would take half a minute to fail."""
    depth = 0
    for event in events:
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _DEEPEST:
            return True
    return False


def _find_unbounded(document: Any) -> str:
    """Why the document is refused, empty where it is not. Each value is looked at once, however often it is named."""
    sizes: dict[int, int] = {}
    waiting: list[tuple[Any, int, bool]] = [(document, 1, False)]
    above: set[int] = set()
    while waiting:
        node, depth, is_done = waiting.pop()
        if is_done:
            above.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes.get(id(child), 1) for child in _children(node))
            if sizes[id(node)] > _MOST_VALUES:
                return f"its aliases stand for more than {_MOST_VALUES:,} values: write them out, or fewer"
            continue
        if id(node) in above:
            return _LOOP
        if id(node) in sizes or not _children(node):
            continue
        if depth > _DEEPEST:
            return _TOO_DEEP
        above.add(id(node))
        waiting.append((node, depth, True))
        waiting += [(child, depth + 1, False) for child in _children(node)]
    return ""


def _children(node: Any) -> list[Any]:
    return [*node.values()] if isinstance(node, dict) else [*node] if isinstance(node, list) else []
