"""What capture does for each kind of source, a row each: its connector, and all that is asked of its server around it.

The table stands above the files of the kinds, and imports them. Modules below it that act by a source's kind import it when they
are called, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cdc_assets.capture.adoption.binlog_adoption import MariaDbAdoption, MySqlAdoption
from cdc_assets.capture.adoption.postgresql_adoption import PostgresAdoption
from cdc_assets.capture.adoption.running_connector import AdoptionKind
from cdc_assets.capture.adoption.sqlserver_adoption import SqlServerAdoption
from cdc_assets.capture.connectors import apply_source, database_connectors, postgresql_connector
from cdc_assets.capture.incarnations import binlog_incarnation, postgresql_incarnation
from cdc_assets.capture.incarnations.server_facts import Known
from cdc_assets.capture.incarnations.server_verdict import ServerEpoch, Verdict
from cdc_assets.capture.log_position import CarriedPlace, LogMarker, carry_by_marker
from cdc_assets.capture.named_log_position import carry_by_offsets, carry_by_row
from cdc_assets.capture.onboarding.binlog_onboarding import MariaDbKind, MySqlKind
from cdc_assets.capture.onboarding.onboarding_state import OnboardingKind
from cdc_assets.capture.onboarding.postgresql_onboarding import PostgresKind
from cdc_assets.capture.onboarding.signalled_onboarding import MongoDbKind, OracleKind, SqlServerKind
from cdc_assets.capture.preflight import binlog_rules, mongodb_rules, oracle_rules, postgresql_rules, sqlserver_rules
from cdc_assets.capture.preflight.inspection import Report
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.kinds import HasKind, row_of
from cdc_assets.registry.source_declaration import CapturedSource


class JudgeServer(Protocol):
    """Is it the server that was read? See capture.incarnations.server_verdict.verdict."""

    def __call__(self, chain: Chain[Any], offsets: Sequence[Mapping[str, Any]] | None, known: Known | None, /) -> Verdict:
        """`known`: the server that was read, where nobody here remembers it."""


@dataclass(frozen=True, kw_only=True)
class KindCapture:
    """What is done for one kind. A field that is None is what this kind does not have: its feature is missing, and nothing
    else."""

    connector: Callable[[CapturedSource], dict[str, str]] | None = None
    """The capturing connector's whole config, as the kind makes it. Sources of topics alone have none."""
    preflight: Callable[[Chain[Any]], Report] | None = None
    """What must hold at the server before its tables are captured. Sources of topics alone have none."""
    carry: Callable[[LogMarker], CarriedPlace] | None = None
    """Carries a place of the log to the core's topics (capture.log_position)."""
    incarnation: JudgeServer | None = None
    """Whether the server is the one that was read (capture.incarnations)."""
    epoch: Callable[[Any], ServerEpoch] | None = None
    """What a new epoch does at the server of a source (chain.new_epoch)."""
    log_end: Callable[[Any], str] | None = None
    """Where the log of a source ends now, as positions have it less their epoch; empty where it may be another server than the
    one that was read (chain.fold_specs)."""
    partitions: Callable[[CapturedSource], str] | None = None
    """Mends tables in partitions before the connector is applied, and says what that has cost so far."""
    onboarding: Callable[[], OnboardingKind] | None = None
    """The steps of `cdc onboard` and `cdc offboard`."""
    adoption: Callable[[], AdoptionKind] | None = None
    """What `cdc adopt` reads of a connector that others have made. Goes with the fact `debezium`."""


CAPTURE: Mapping[str, KindCapture] = {
    "postgresql": KindCapture(
        connector=postgresql_connector.capture_config,
        preflight=postgresql_rules.inspect,
        carry=carry_by_marker,
        incarnation=postgresql_incarnation.postgresql_verdict,
        epoch=postgresql_incarnation.PostgresEpoch,
        log_end=postgresql_incarnation.log_end,
        partitions=apply_source.publish_by_root,
        onboarding=PostgresKind,
        adoption=PostgresAdoption,
    ),
    "mariadb": KindCapture(
        connector=database_connectors.mariadb_config,
        preflight=binlog_rules.inspect_mariadb,
        carry=carry_by_offsets,
        incarnation=binlog_incarnation.mariadb_verdict,
        onboarding=MariaDbKind,
        adoption=MariaDbAdoption,
    ),
    "mysql": KindCapture(
        connector=database_connectors.mysql_config,
        preflight=binlog_rules.inspect_mysql,
        carry=carry_by_offsets,
        incarnation=binlog_incarnation.mysql_verdict,
        epoch=binlog_incarnation.MySqlEpoch,
        onboarding=MySqlKind,
        adoption=MySqlAdoption,
    ),
    "sqlserver": KindCapture(
        connector=database_connectors.sqlserver_config,
        preflight=sqlserver_rules.inspect,
        carry=carry_by_row,
        onboarding=SqlServerKind,
        adoption=SqlServerAdoption,
    ),
    "oracle": KindCapture(
        connector=database_connectors.oracle_config,
        preflight=oracle_rules.inspect,
        carry=carry_by_row,
        onboarding=OracleKind,
    ),
    "mongodb": KindCapture(
        connector=database_connectors.mongodb_config,
        preflight=mongodb_rules.inspect,
        carry=carry_by_row,
        onboarding=MongoDbKind,
    ),
    "topics": KindCapture(),
}


def capture_of(source: HasKind) -> KindCapture:
    """What is done for a source's kind. Raises LookupError: there is no row for the kind."""
    return row_of(CAPTURE, source.kind_name, __name__)
