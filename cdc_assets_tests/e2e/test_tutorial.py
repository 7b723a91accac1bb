"""The tutorial's commands, read from its page, in their order in one shell, on the running stack: exit codes and printed lines.

Left out are those that start and stop the stack, which the fixture does.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc_assets_tests.support.lakehouse import ROOT, Lakehouse

pytestmark = pytest.mark.e2e

PAGE = ROOT / "docs" / "tutorial.md"
MARK = "@@exit "
# Another test may have counted the ledger.
UNCOUNTED = re.compile(r", \d+ not run$")


@dataclass(frozen=True)
class Command:
    """One command of the page, the exit code that it ends with there, and what is shown below its block."""

    text: str
    code: int
    block: int


@pytest.mark.all
def test_the_tutorial_does_what_its_page_says(lakehouse: Lakehouse, tmp_path: Path) -> None:
    (tmp_path / "cdc").symlink_to(ROOT / "cdc")
    (tmp_path / ".cdc").symlink_to(lakehouse.home)
    (tmp_path / "world.py").write_text(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0])
    page = PAGE.read_text()
    commands = [each for each in page_commands(page) if not re.search(r"cdc (up|down)\b", each.text)]
    assert len(commands) > 15
    # What the stack holds is open to nobody else, and other tests look whether it is.
    script = "umask 077\n" + "".join(f"{each.text}\nprintf '\\n{MARK}%s\\n' $?\n" for each in commands)
    (tmp_path / "tutorial.sh").write_text(script)
    environment = {**lakehouse.environment(), "PYTHONPATH": ""}
    try:
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "tutorial.sh"],
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
    finally:
        with lakehouse.connect("world") as world:
            world.execute("DROP TABLE IF EXISTS visit")
    outputs = re.split(rf"\n{MARK}(\d+)\n", done.stdout)
    told = {0: lakehouse.up_output} | dict.fromkeys((each.block for each in commands), "")
    for command, output, code in zip(commands, outputs[::2], outputs[1::2], strict=False):
        assert int(code) == command.code, f"{command.text}\n{output[-4000:]}"
        told[command.block] += output
    # Each line of progress says for what.
    assert re.findall(r"(?:waiting for|to go:) *$", lakehouse.up_output, re.MULTILINE) == []
    assert len(outputs) == 2 * len(commands) + 1
    healed = [number for number, each in enumerate(commands) if each.text == "./cdc status"][-1]
    assert commands[healed - 1].text.startswith("dagster asset materialize"), "the check is run again before it is looked at"
    assert re.search(r"country .*\b1 failed", outputs[2 * healed]) is None
    lines = [(block, line) for block, text in shown(page).items() if block in told for line in text.splitlines()]
    assert len(lines) > 5
    assert [line for block, line in lines if not is_told(line, told[block])] == []


def page_commands(page: str) -> Iterator[Command]:
    """A command ends with the line at which the shell could run it; `# exit code 1` behind it says how it ends."""
    for number, block in enumerate(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)):
        text = ""
        for line in block.splitlines():
            text += f"\n{line}" if text else line
            whole = subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0
            if whole and text.strip():
                code = re.search(r"# exit code (\d)", text)
                yield Command(text, int(code[1]) if code else 0, number)
                text = ""


def shown(page: str) -> dict[int, str]:
    """What the page shows as printed, by the number of the block of commands before it."""
    found, number = {}, -1
    for kind, text in re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        number += kind == "sh"
        if kind == "text":
            found[number] = text
    return found


def is_told(line: str, output: str) -> bool:
    """Whether a line of the output has these words in this order: `…` is anything, blanks are any blanks, a number is any.

    The page's numbers are a new stack's; other tests have worked on this one.
    """
    line = UNCOUNTED.sub("…", line)
    parts = (r"\s+".join(re.sub(r"\d+", r"\\d+", re.escape(word)) for word in part.split()) for part in line.split("…"))
    return bool(re.search(".*".join(parts), output))
