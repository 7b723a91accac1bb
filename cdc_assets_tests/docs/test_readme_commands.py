"""The commands of README are in the environment that `./cdc up` makes: not only in the one that `./cdc test` completes."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.metadata import distributions
from pathlib import Path

from cdc_assets.launcher import uv_wheel
from cdc_assets.launcher.environment import cache_folder, groups_for

ROOT = Path(__file__).parents[2]
# Of the operating system, or the shell's own.
_GIVEN = {"eval", "./cdc", "cd", "export", "."}


def test_a_bare_machine_has_them_after_up() -> None:
    wanted = commands((ROOT / "README.md").read_text()) - _GIVEN
    assert {"dagster", "dg"} <= wanted
    owners = {
        entry.name: found.metadata["Name"].lower()
        for found in distributions()
        for entry in found.entry_points
        if entry.group == "console_scripts"
    }
    installed = packages_of("up")
    assert {name: owners.get(name) for name in wanted if owners.get(name) not in installed} == {}


def commands(text: str) -> set[str]:
    """The first word of each line of its blocks for a shell."""
    blocks = re.findall(r"^ *```sh\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    return {line.split()[0] for block in blocks for line in block.splitlines() if line.strip() and line.strip()[0] != "#"}


def packages_of(verb: str) -> set[str]:
    """What the launcher installs before it."""
    uv = uv_wheel.fetch(ROOT, cache_folder(dict(os.environ)), dict(os.environ))
    groups = [f"--group={group}" for group in groups_for([verb])]
    selection = ["--frozen", "--no-default-groups", "--all-extras", "--no-emit-project", "--no-hashes", "--no-annotate", *groups]
    done = subprocess.run([str(uv), "export", "--offline", *selection], cwd=ROOT, capture_output=True, text=True, check=True)
    return {re.split(r"[=;\s\[]", line)[0] for line in done.stdout.splitlines() if line and line[0] != "#"}
