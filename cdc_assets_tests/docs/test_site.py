"""The pages make a site, without a broken link, anchor or menu entry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", ".ci/mkdocs.yml", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    drawn = (tmp_path / "site" / "explanation" / "architecture.html").read_text()
    assert drawn.count('<pre class="mermaid">') == 4
    assert (tmp_path / "site" / "adr" / "index.html").exists()
