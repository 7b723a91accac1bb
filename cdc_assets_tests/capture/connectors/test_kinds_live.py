"""The real plugins' own verdict on our configs: all they can object to is that no such server answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.onboarding.onboarding_state import Onboarding, OnboardingWork, onboarding_kind
from cdc_assets.clients.platform import Platform
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets_tests.support.live.live_source import NAME, LiveSource

HERE = f"host: 127.0.0.1, port: 1, user: cdc, password: {{secret: {NAME}}}"
DATABASES = {
    "mysql": f"{HERE}, sslmode: required, time_zone: Europe/Berlin",
    "sqlserver": f"{HERE}, dbname: shop, instance: one, read_only_replica: true",
    "oracle": f"{HERE}, dbname: ORCL, pdb: PDB1, lobs: true, mining: online_catalog",
    "mongodb": f"hosts: '127.0.0.1:1', replica_set: rs, user: cdc, password: {{secret: {NAME}}}, images: with_pre_image",
}
SOURCE = """
source: {kind}_shop
reconciliation: {{marker: ours.marker, signals: ours.signals}}
database: {{kind: {kind}, {database}}}
tables:
  - name: 'shop."odd.na,me(x)"'
    keys: [_id]
    columns: {{_id: bigint not null, total: "numeric(10,2)"}}
"""
# Each key that we set must be one that the plugin lists; these are Connect's, the producer's, the history's or the driver's
# own, and the one that the binlog connectors read without listing it (seen live with MariaDB's, docs/reference/types.md).
OTHERS = ("topic.creation.", "exactly.once.support", "transaction.boundary", "key.converter.", "value.converter.")
DRIVERS = ("database.", "driver.", "schema.history.internal.kafka.", "binary.handling.mode")
# By default MongoDB's client looks for a server for half a minute, SQL Server's for a quarter.
IMPATIENT = {"sqlserver": {"driver.loginTimeout": "1"}, "mongodb": {"mongodb.server.selection.timeout.ms": "200"}}
UNREACHABLE = ("unable to connect", "connection", "timed out", "refused")


def beside(source: CapturedSource) -> dict[str, str]:
    """The temporary connector of an onboarding, as its kind makes it."""
    kind = onboarding_kind(source)
    assert kind is not None, source.kind_name
    state = Onboarding("one", source.name, "temporary", tuple(table.name for table in source.tables), "now")
    return kind.temporary_config(OnboardingWork(Platform(), state, source, print))


@pytest.mark.parametrize("made", [capture_config, beside])
@pytest.mark.parametrize("kind", DATABASES)
def test_the_plugin_knows_every_option_and_wants_no_other(
    live: LiveSource, tmp_path: Path, kind: str, made: Callable[[CapturedSource], dict[str, str]]
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(SOURCE.format(kind=kind, database=DATABASES[kind]))
    source = load_source(file)
    assert isinstance(source, CapturedSource)
    with live.settings(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_CORE_BOOTSTRAP", live.bootstrap)
        config = made(source)
    patient, config = config, {**config, **IMPATIENT.get(kind, {})}
    findings = live.connect.validate(config)
    assert [key for key, errors in findings.items() if not _is_about_reaching_it(errors)] == [], findings
    known = live.connect.definitions(config["connector.class"])
    unknown = {key for key in patient if key not in known and not key.startswith((*OTHERS, *DRIVERS))}
    assert unknown <= {"name", "connector.class"}
    # And it does look: what is wrong is named.
    wrong = live.connect.validate({**config, "topic.prefix": "no good prefix!", "snapshot.mode": "often"})
    assert {"topic.prefix", "snapshot.mode"} <= set(wrong)
    assert live.home.secret(NAME) not in str(findings) + str(wrong)


def _is_about_reaching_it(errors: list[str]) -> bool:
    text = " ".join(errors).lower()
    return any(word in text for word in UNREACHABLE)
