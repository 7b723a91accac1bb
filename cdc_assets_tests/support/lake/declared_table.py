"""A table of a source of topics, folded as declared: a topic's events, the registry's file, Dagster's check, the command."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from typer.testing import CliRunner

from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.silver_fold import fold_table
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.check_specs import SCHEMA
from cdc_assets.defs.volumetry_checks import silver_check
from cdc_assets.registry import names
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.declared_topic import SOURCE
from cdc_assets_tests.support.lake.lake import Lake

WIDE = {"id": "integer not null", "v": "text", "note": "text"}


@dataclass
class DeclaredTable:
    """`t` of the source `source`: folded as it is declared."""

    file: Path
    lake: Lake
    source: BaseSource = field(init=False)

    def declare(self, **more: Any) -> None:
        text = yaml.safe_load(SOURCE)
        text["tables"][0] |= {"columns": WIDE, **more}
        self.file.write_text(yaml.safe_dump(text))
        self.source = load_source(self.file)

    @property
    def path(self) -> str:
        return names.silver_path(Platform().lake, self.source, self.source.tables[0])

    @property
    def past(self) -> str:
        return names.history_path(Platform().lake, self.source, self.source.tables[0])

    def arrive(self, *records: Record) -> None:
        """In bronze."""
        self.lake.put("t", *records)
        self.lake.append(self.lake.all_of("t"))

    def send(self, *records: Record) -> None:
        """And an ordinary run."""
        if records:
            self.arrive(*records)
        platform, (table,) = Platform(), self.source.tables
        committed = bronze_committed(self.lake.bronze_path)
        assert committed is not None
        fold_table(
            Chain(platform, self.source),
            table,
            catalogue_of(Chain(platform, self.source), [table])[table.id],
            committed.version,
            None,
        )

    def check(self) -> tuple[bool, str]:
        """As Dagster has it: whether it passed, and what it said."""
        key, checks = SCHEMA.key(self.source, self.source.tables[0]), silver_check.build(self.source)
        with dg.DagsterInstance.ephemeral() as instance:
            selection, resources = dg.AssetSelection.checks(key), {"platform": Platform()}
            run = dg.materialize(checks, selection=selection, instance=instance, resources=resources)
        (found,) = run.get_asset_check_evaluations()
        assert (run.success, found.severity) == (True, dg.AssetCheckSeverity.WARN)
        return found.passed, found.description or ""

    def offered(self) -> str:
        """What the check says where it warns."""
        passed, said = self.check()
        assert not passed, said
        return said

    def replay(self, *words: str) -> Any:
        result = CliRunner().invoke(app, ["replay", "source", "t", *words, "-o", "json"])
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)
