"""The version of this software, as it is installed, or as the repository's pyproject.toml says."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def software_version() -> str:
    """Its number, such as 0.1.0."""
    try:
        return version("cdc-assets")
    except PackageNotFoundError:
        # Run from a clone, which uv does not install.
        text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
        found = re.search(r'^version = "([^"]+)"', text, re.MULTILINE)
        return found[1] if found else "unknown"
