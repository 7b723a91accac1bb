"""A page "add a …" of docs/how-to, followed as it is written, on a copy of the product.

A block with a title is a new file of that name, or goes into the file of that name. What else is to be done the page says in
words: followed_words.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_HOW_TO = ROOT / "docs" / "how-to"
_BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# Where the rows of a table end.
END_OF_ROWS = {
    "cdc_assets/registry/kinds.py": r"(?=^ROWS: )",
    "cdc_assets/registry/kind_models.py": r"(?<=\n)(?=\}\n\n\ndef model_of)",
    "cdc_assets/clients/kind_clients.py": r"(?<=\n)(?=\}\n\n\ndef clients_of)",
    "cdc_assets/capture/kind_capture.py": r"(?<=\n)(?=\}\n\n\ndef capture_of)",
    "cdc_assets/proof/kind_proof.py": r"(?<=\n)(?=\}\n\n\ndef proof_of)",
    "cdc_assets/recovery/kind_recovery.py": r"(?<=\n)(?=\}\n\n\ndef recovery_of)",
    "cdc_assets/registry/backup_store.py": r"(?<=\n)(?=\)\nSTORES)",
    "cdc_assets/clients/opened_store.py": r"(?<=\n)(?=\}\n\n\ndef open_store)",
    "spark/record_formats.py": r"(?<=\n)(?=\)\nENVELOPES)",
    "cdc_assets/defs/check_specs.py": r"(?=^WINDOWS_EQUAL_BATCH)",
    "cdc_assets/defs/source_chain.py": r"(?<=\n)(?=\)\n\n\ndef build_source_defs)",
    "spark/events/record_readers.py": r"(?<=\n)(?=\)\nCONNECTORS)",
    "cdc_assets/registry/names.py": r"(?=^    \}\n\)\n\"\"\"Our checks)",
    "docs/reference/checks.md": r"(?=^## When rows were compared$)",
    "docs/reference/databases.md": r"(?=^\| \(topics of others\))",
    "docs/reference/envelopes.md": r"(?<=\n)(?=\nA connector says where)",
}


def text_of(page: str) -> str:
    """The page as it is read."""
    return (_HOW_TO / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[tuple[str, str]]:
    """The blocks that have a title: the name of a file, and what is written there."""
    return _BLOCK.findall(text_of(page))


class Copy:
    """The product without its tests, copied, with a page's files and rows in it."""

    def __init__(self, folder: Path, page: str) -> None:
        self.root = folder
        for part in ("cdc_assets", "spark"):
            # With what Python has compiled of it, which the copies of the files keep valid: that takes longer than the rest.
            shutil.copytree(ROOT / part, folder / part)
        shutil.copytree(ROOT / "docs" / "reference", folder / "docs" / "reference")
        self.follow(page)

    def follow(self, page: str) -> None:
        """Write the page's new files, and its rows into the tables."""
        self.text, self.tables = text_of(page), 0
        for name, text in blocks_of(page):
            file = self.root / name
            if name in END_OF_ROWS:
                self.tables += 1
                self._insert(file, name, text)
                continue
            if file.exists():
                skip_followed(page, name, file.read_text(encoding="utf-8"), text)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def _insert(self, file: Path, name: str, text: str) -> None:
        imports = re.match(r"(?:from .*\n)*", text)
        lines, text = (imports[0] if imports else "").splitlines(), re.sub(r"\A(?:from .*\n)*\n*", "", text)
        row = re.match(r"([A-Z]+) = ", text)
        if row or text.startswith("#"):
            shown = f"{text}\n"
        else:
            shown = text if text.startswith(("    ", "|")) else f"    {text.rstrip().rstrip(',')},\n"
        before = file.read_text(encoding="utf-8")
        after, count = re.subn(END_OF_ROWS[name], lambda _: shown, before, count=1, flags=re.MULTILINE)
        assert count == 1, name
        if row:
            after = re.sub(r"^(ROWS: .*)\)$", rf"\1, {row[1]})", after, flags=re.MULTILINE)
        for line in lines:
            after = _with_import(after, line)
        file.write_text(after, encoding="utf-8")

    def test(self, *files: str) -> int:
        """How many tests passed: all of the files, with options of pytest's."""
        done = self.python("-m", "pytest", "-p", "no:cacheprovider", *files, CDC_SOURCES="")
        return int(re.findall(r"\b(\d+) passed\b", done, re.MULTILINE)[-1])

    def test_as_told(self) -> int:
        """The same of the page's last command."""
        *_, command = re.findall(r"^\./cdc test ((?:.*\\\n)*.*)", self.text, re.MULTILINE)
        return self.test(*command.replace("\\\n", " ").split())

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """What a command of ours prints, which ends with this code."""
        return self.python("-m", "cdc_assets.cli", *arguments, code=code, **environment)

    def python(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """The same of a Python without the variables of ours."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("CDC_", "DAGSTER_", "PYTHON"))}
        own = {"CDC_SOURCES": str(self.root / "sources"), "CDC_HOME": str(self.root / ".cdc"), **environment}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=clean | own,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def promise(self, number: int = 0) -> str:
        """What the page says is printed."""
        return re.findall(r"^```text\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)[number].replace("…", str(self.root))


def _with_import(text: str, line: str) -> str:
    """The module with this import where ruff wants it: in the order of the modules' names."""
    own = line.split()[1]
    behind = next((m for m in re.finditer(r"^from ((?:cdc_assets|spark)\S*) import", text, re.MULTILINE) if m[1] > own), None)
    # Behind the last one where none is higher.
    at = behind.start() if behind else max(m.end() for m in re.finditer(r"^from .*\n", text, re.MULTILINE))
    return f"{text[:at]}{line}\n{text[at:]}"


def skip_followed(page: str, name: str, there: str, text: str) -> None:
    """A file of the page is there: the page was followed here, or takes the name of another file, which fails."""
    if there.strip() == text.strip():
        pytest.skip(f"{name} is there: {page} was followed in this clone. Its test wants a clone without that")
    pytest.fail(f"{name} is there, and is not what {page} writes: give yours another name, or the page's another")
