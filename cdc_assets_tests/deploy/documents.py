"""The documents of rendered files."""

from __future__ import annotations

from typing import Any

import yaml


def parsed(files: dict[str, str]) -> list[dict[str, Any]]:
    return [document for text in files.values() for document in yaml.safe_load_all(text)]


def of_kind(files: dict[str, str], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in parsed(files) if each["kind"] == kind}
