"""The pages of the commands and of the registry are what these say now; that of the errors has every error."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from cdc_assets.cli import cli_page as cli
from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs import VERBS
from cdc_assets.registry import registry_page as registry
from cdc_assets.registry.source_settings import Batching

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "reference"


def test_the_page_of_the_commands_is_current() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert page == cli.markdown(), "run: python -m cdc_assets.cli.cli_page > docs/reference/cli.md"
    assert [name for name in VERBS if f"### `cdc {name}`" not in page] == []
    helped = CliRunner().invoke(app, ["offsets", "set", "--help"], prog_name="cdc").output
    assert "--dry-run" in helped
    assert "| `--dry-run` |" in page.split("cdc offsets set [OPTIONS]")[1].split("cdc offsets reset [OPTIONS]")[0]


def test_the_page_of_the_registry_is_current() -> None:
    page = (DOCS / "registry.md").read_text(encoding="utf-8")
    assert page == registry.markdown(), "run: python -m cdc_assets.registry.registry_page > docs/reference/registry.md"
    section = page.split("## batching\n")[1].split("\n## ")[0]
    assert [key for key in Batching.model_fields if f"| `{key}` |" not in section] == []
    assert "`10s`" in section


def test_every_error_has_its_row() -> None:
    defined = {name for folder in ("cdc_assets", "spark") for name in error_classes(ROOT / folder)}
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(defined - {"CdcAssetsError", "SparkJobError"})


def error_classes(folder: Path) -> set[str]:
    """What is derived, at any distance, from one of the two roots: read from the sources, so that no heavy module is imported."""
    texts = [file.read_text(encoding="utf-8") for file in folder.rglob("*.py")]
    classes = [found for text in texts for found in re.findall(r"^class (\w+)\(([^)]*)\)", text, re.MULTILINE)]
    found = {"CdcAssetsError", "SparkJobError"}
    for _ in classes:
        more = {name for name, bases in classes if set(re.findall(r"\w+", bases)) & found}
        if more <= found:
            break
        found |= more
    return found
