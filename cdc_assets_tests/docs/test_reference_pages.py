"""The pages of the commands and of the registry are what these say now; that of the errors has every error."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from typer.testing import CliRunner

from cdc_assets.cli import cli_page as cli
from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verb_table import VERBS
from cdc_assets.registry import registry_page as registry
from cdc_assets.registry.source_settings import Batching

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "reference"


def test_the_page_of_the_commands_is_current() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert page == cli.cli_page(), "run: python -m cdc_assets.cli.cli_page > docs/reference/cli.md"
    assert [name for name in VERBS if f"### `cdc {name}`" not in page] == []
    helped = CliRunner().invoke(app, ["offsets", "set", "--help"], prog_name="cdc").output
    assert "--dry-run" in helped
    assert "| `--dry-run` |" in page.split("cdc offsets set [OPTIONS]")[1].split("cdc offsets reset [OPTIONS]")[0]


def test_the_page_of_the_registry_is_current() -> None:
    page = (DOCS / "registry.md").read_text(encoding="utf-8")
    assert page == registry.registry_page(), "run: python -m cdc_assets.registry.registry_page > docs/reference/registry.md"
    section = page.split("## batching\n")[1].split("\n## ")[0]
    assert [key for key in Batching.model_fields if f"| `{key}` |" not in section] == []
    assert "`10s`" in section


def test_every_error_has_its_row() -> None:
    by_class, by_text = _errors_page()
    rows = re.findall(r"^\| `(\w+)` \|", by_class, re.MULTILINE)
    assert sorted(rows) == sorted(_error_classes("cdc_assets", "spark") - {"CdcAssetsError", "SparkJobError"})
    in_rows = re.findall(r"`(\w+Error)`", by_text)
    assert {*in_rows} <= _error_classes("cdc_assets", "spark", "benchmarks")


def test_every_text_of_an_error_is_said_by_the_program() -> None:
    """The page is read by the words of a message, or by the command that was given."""
    _, by_text = _errors_page()
    texts = [text for row in re.findall(r"^\| (`[^|]*`) \|", by_text, re.MULTILINE) for text in re.findall(r"`([^`]+)`", row)]
    product = [file for folder in ("cdc_assets", "spark") for file in (ROOT / folder).rglob("*.py")]
    strings = [
        node.value
        for file in product
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    verbs = {f"cdc {name}" for name in VERBS}
    assert len(texts) > 60
    assert [text for text in texts if text not in verbs and not any(text in string for string in strings)] == []


def _errors_page() -> tuple[str, str]:
    by_class, _, by_text = (DOCS / "errors.md").read_text(encoding="utf-8").partition("\n## By text\n")
    return by_class, by_text


def _error_classes(*folders: str) -> set[str]:
    """What is derived, at any distance, from one of the two roots: read from the sources, so that no heavy module is imported."""
    texts = [file.read_text(encoding="utf-8") for folder in folders for file in (ROOT / folder).rglob("*.py")]
    classes = [found for text in texts for found in re.findall(r"^class (\w+)\(([^)]*)\)", text, re.MULTILINE)]
    found = {"CdcAssetsError", "SparkJobError"}
    for _ in classes:
        more = {name for name, bases in classes if set(re.findall(r"\w+", bases)) & found}
        if more <= found:
            break
        found |= more
    return found
