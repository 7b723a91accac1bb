"""PostgreSQL refuses root, and asks by access(2) whether its programs may be run: below a closed folder, too."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cdc_assets.stack.component import as_child, pick_identity


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_programs_below_a_folder_of_roots_own_are_found(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "program"
    program.write_text('#!/bin/sh\nid -u\ntest -x "$0" && echo found\n', encoding="utf-8")
    program.chmod(0o755)
    identity = pick_identity("tests", str(program))
    ran = subprocess.run(as_child([str(program)], identity), capture_output=True, text=True, check=False)
    uid, *found = ran.stdout.split()
    assert (ran.returncode, ran.stderr, found) == (0, "", ["found"])
    assert uid != "0"
