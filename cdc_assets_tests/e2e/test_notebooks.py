"""`cdc notebook` as a user starts it, and the notebooks that it gives, run cell by cell on a stack that runs."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cdc_assets_tests.support.lakehouse import ROOT, Lakehouse

pytestmark = pytest.mark.all

GIVEN = ["event_time.ipynb", "look_at_a_chain.ipynb", "what_changed.ipynb"]
SECONDS = 300


@contextmanager
def jupyter(lakehouse: Lakehouse, folder: Path) -> Iterator[tuple[str, str]]:
    """Its address and its token, as it prints them."""
    command = [sys.executable, "-m", "cdc_assets.cli", "notebook", "--no-browser", "--folder", str(folder)]
    printed: queue.Queue[str] = queue.Queue()
    environment = lakehouse.environment(JUPYTER_CONFIG_DIR=str(folder / ".jupyter"))
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    threading.Thread(target=put_lines, args=(process, printed), daemon=True).start()
    told = ""
    try:
        while not (found := re.search(r"(http://127\.0\.0\.1:\d+)/lab\?token=(\w+)", told)):
            line = printed.get(timeout=SECONDS)
            assert line, f"Jupyter has ended: {told}"
            told += line
        yield found[1], found[2]
    finally:
        process.terminate()
        process.wait(60)


def put_lines(process: subprocess.Popen[str], printed: queue.Queue[str]) -> None:
    """What it prints, line by line; an empty text once it has ended."""
    assert process.stderr is not None
    for line in process.stderr:
        printed.put(line)
    printed.put("")


@pytest.mark.e2e
def test_jupyter_wants_its_token(lakehouse: Lakehouse, tmp_path: Path) -> None:
    with jupyter(lakehouse, tmp_path / "own") as (address, token):
        listed = f"{address}/api/contents"
        assert httpx.get(listed, trust_env=False).status_code == 403
        found = httpx.get(listed, headers={"Authorization": f"token {token}"}, trust_env=False, timeout=60).json()
        assert sorted(each["name"] for each in found["content"]) == GIVEN
        assert found["content"][0]["type"] == "notebook"


@pytest.mark.e2e
def test_the_notebooks_run_from_top_to_bottom(lakehouse: Lakehouse) -> None:
    with lakehouse.connect("world") as connection:
        (countries,) = connection.execute("SELECT count(*) FROM country").fetchone()
    told = {name: played(lakehouse, name) for name in GIVEN}
    assert re.search(rf"silver_rows +keys_alive\n0 +{countries} +{countries}\b", told["look_at_a_chain.ipynb"])
    assert "silver.world.country" in told["look_at_a_chain.ipynb"]
    assert "<image/png>" in told["event_time.ipynb"]
    assert re.search(r"version \d+: \d+ rows, version \d+: " + f"{countries} rows", told["what_changed.ipynb"])


def played(lakehouse: Lakehouse, name: str) -> str:
    """What its cells have shown; a cell that fails is raised."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "cdc_assets" / "reading" / "notebooks" / name, as_version=4)
    assert not [cell for cell in notebook.cells if cell.get("outputs")]
    NotebookClient(notebook, timeout=SECONDS, startup_timeout=SECONDS).execute(env=lakehouse.environment())
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(map(_text, outputs))


def _text(output: Any) -> str:
    data = output.get("data", {})
    return data.get("text/plain", "") + ("<image/png>" if "image/png" in data else "") + output.get("text", "")
