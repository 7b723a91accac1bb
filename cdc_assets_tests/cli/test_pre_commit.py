"""What runs before a commit is what `cdc test` runs before the tests."""

from __future__ import annotations

import shlex
from pathlib import Path

import yaml

from cdc_assets_tests.run.parts import CHECKS

ROOT = Path(__file__).parents[2]


def test_the_hooks_are_the_checks_of_ci_by_the_projects_own_environment() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks = {hook["name"]: shlex.split(hook["entry"]) for hook in repository["hooks"]}
    assert repository["repo"] == "local", "nothing is fetched"
    assert hooks == {name: [".venv/bin/python", *command[1:]] for name, command in CHECKS}
    assert all((hook["language"], hook["pass_filenames"]) == ("system", False) for hook in repository["hooks"])
