"""docs/cli.md and docs/registry.md are what the commands and the models say now."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from cdc_assets.cli import app
from cdc_assets.cli import document as cli
from cdc_assets.cli.verbs import VERBS
from cdc_assets.registry import document as registry
from cdc_assets.registry.source_settings import Batching

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_commands_is_current() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert page == cli.markdown(), "run: python -m cdc_assets.cli.document > docs/cli.md"
    assert [name for name in VERBS if f"### `cdc {name}`" not in page] == []
    helped = CliRunner().invoke(app, ["offsets", "set", "--help"], prog_name="cdc").output
    assert "--dry-run" in helped
    assert "| `--dry-run` |" in page.split("cdc offsets set [OPTIONS]")[1].split("cdc offsets reset [OPTIONS]")[0]


def test_the_page_of_the_registry_is_current() -> None:
    page = (DOCS / "registry.md").read_text(encoding="utf-8")
    assert page == registry.markdown(), "run: python -m cdc_assets.registry.document > docs/registry.md"
    section = page.split("## batching\n")[1].split("\n## ")[0]
    assert [key for key in Batching.model_fields if f"| `{key}` |" not in section] == []
    assert "`10s`" in section
