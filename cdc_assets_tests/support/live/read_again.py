"""`cdc snapshot` of a small chain's tables, by the command itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app

if TYPE_CHECKING:
    from click.testing import Result

    from cdc_assets_tests.support.live.small_chain import SmallChain


def snapshot(chain: SmallChain, *arguments: str) -> str:
    """What the command prints; the rows are in the topics then."""
    done = invoke(chain, *arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def invoke(chain: SmallChain, *arguments: str) -> Result:
    source, folder = chain.source, Path(chain.root).parent / "sources"
    folder.mkdir(exist_ok=True)
    declared = source.model_dump(mode="json", exclude_unset=True, by_alias=True)
    (folder / f"{source.name}.yaml").write_text(json.dumps(declared))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_SOURCES", str(folder))
        patch.setenv("CDC_CORE_BOOTSTRAP", chain.live.bootstrap)
        patch.setenv("CDC_CORE_CONNECT", chain.live.connect.url)
        return CliRunner().invoke(app, ["snapshot", source.name, *arguments])
