"""The blocks of a page of docs/how-to, by their titles, run as a reader runs them: one after another in a folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
_BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def blocks_of(page: str, language: str) -> dict[str, str]:
    """By title, the page's blocks of a language."""
    text = (HOW_TO / page).read_text(encoding="utf-8")
    return {title: code for kind, title, code in _BLOCK.findall(text) if kind == language}


def run_block(page: str, title: str, **given: Any) -> dict[str, Any]:
    """The variables that a block of Python leaves, of which some are given."""
    variables = dict(given)
    exec(compile(blocks_of(page, "python")[title], f"{page}: {title}", "exec"), variables)
    return variables
