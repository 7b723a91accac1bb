"""docs/reference/types.md is what the rules say now."""

from __future__ import annotations

from pathlib import Path

from spark.values.types_page import markdown

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "types.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), "run: python -m spark.values.types_page > docs/reference/types.md"
