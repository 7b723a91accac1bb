"""Which runs yield to those that carry changes; the kernel's own answer, of a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

_ASK = """
import os, sys, types
sys.modules |= {{name: types.ModuleType(name) for name in {modules}}}
from cdc_assets.defs.platform_resource import yield_to_others
yield_to_others({tags})
print(os.getpriority(os.PRIO_PROCESS, 0))
"""
FORKED = ["cdc_assets.stack.run_preload"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tags", "modules", "niceness"),
    [
        ({"dagster/schedule_name": "volumetry_shop_schedule"}, FORKED, 10),
        ({"cdc/backups": "orders"}, FORKED, 10),
        ({"cdc/tables": "orders"}, FORKED, 0),
        ({}, FORKED, 0),
        ({"cdc/backups": "orders"}, [], 0),
    ],
)
def test_only_a_background_run_of_its_own_process_yields(tags: dict[str, str], modules: list[str], niceness: int) -> None:
    program = _ASK.format(modules=modules, tags=tags)
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(told.stdout) == niceness
