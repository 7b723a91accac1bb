"""The registry entry of an adopted source as text, and its file."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from cdc_assets.adoption.running_connector import RunningConnector
from cdc_assets.durable_file import replace_file
from cdc_assets.errors import AdoptionError
from cdc_assets.registry_files.loader import load_sources

_MODE = 0o644


def entry_text(document: Mapping[str, Any]) -> str:
    """The entry in YAML, in the order in which people read it."""
    yaml = YAML()
    yaml.width, yaml.default_flow_style = 4096, False
    yaml.representer.add_representer(type(None), lambda dump, _: dump.represent_scalar("tag:yaml.org,2002:null", "null"))
    yaml.indent(mapping=2, sequence=4, offset=2)
    order = ("source", "cluster", "database", "capture", "topics", "mirror", "tables")
    stream = io.StringIO()
    # What the order does not name comes behind it: nothing of an entry is left out.
    yaml.dump({key: _quote_texts(document[key]) for key in (*order, *document) if key in document}, stream)
    return stream.getvalue()


def write_entry(file: Path, running: RunningConnector, document: Mapping[str, Any]) -> None:
    """Write the file, which is new, and read the folder with it.

    Raises:
        AdoptionError: it is there.
        RegistryError: the folder is not valid with it; the file is taken back.
    """
    if file.exists():
        raise AdoptionError(f"{file} is there already; cdc adopt {running.name} --source NAME")
    head = f"# Connector {running.name} at {running.url} runs as it did before: cdc diff {document['source']}\n"
    replace_file(file, (head + entry_text(document)).encode())
    file.chmod(_MODE)
    try:
        load_sources(file.parent)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _quote_texts(value: Any) -> Any:
    """Texts that YAML would read as something else, or that hold a `:`, in quotes."""
    if isinstance(value, Mapping):
        return {key: _quote_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_quote_texts(each) for each in value]
    return DoubleQuotedScalarString(value) if isinstance(value, str) and not value.replace("_", "").isalnum() else value
