"""How rows and changes of each kind of source are proven, a row each.

The table stands above the files of the kinds, and imports them. Modules below it that act by a source's kind import it when they
are called, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import flow_witnesses, healing, source_sides
from cdc_assets.proof.capture_flow import Witness
from cdc_assets.proof.compared_table import ComparisonRequest, Way
from cdc_assets.proof.source_sides import PostgresStandby
from cdc_assets.registry.kinds import HasKind, row_of
from cdc_assets.registry.table_declaration import Table

if TYPE_CHECKING:
    from spark.specs import SilverSpec

Ways = Callable[[Chain[Any], Sequence[Table], ComparisonRequest], Sequence[Way]]


@dataclass(frozen=True, kw_only=True)
class KindProof:
    """How one kind is proven. A field that is None is what this kind does not have: its feature is missing, and nothing else."""

    ways: Ways | None = None
    """Where rows of these tables stand, and how the lake is brought there; None: nobody can be asked for them."""
    standby: Callable[[Any, str], PostgresStandby] | None = None
    """`(source, host:port)`: a standby that rows can be read from."""
    read_again: Callable[[Any, Table, SilverSpec, Sequence[str]], object] | None = None
    """`(source, table, spec, keys)`: asks the connector for these keys (texts) again."""
    witness: Callable[[Any], Witness] | None = None
    """What the server knows of its own changes, of what stands below `database:`; the check `events_flow`."""


PROOF: Mapping[str, KindProof] = {
    "postgresql": KindProof(
        ways=source_sides.as_declared,
        standby=source_sides.standby_of,
        read_again=healing.by_signals_of_ours,
        witness=flow_witnesses.PostgresWitness,
    ),
    "mariadb": KindProof(
        ways=source_sides.as_declared,
        read_again=healing.by_signals_of_ours,
        witness=flow_witnesses.mariadb_witness,
    ),
    "mysql": KindProof(
        ways=source_sides.by_lock_or_pages,
        read_again=healing.ask_for_keys,
        witness=flow_witnesses.mysql_witness,
    ),
    "sqlserver": KindProof(ways=source_sides.by_pages, read_again=healing.ask_for_keys),
    "oracle": KindProof(ways=source_sides.by_pages, read_again=healing.ask_for_keys),
    "mongodb": KindProof(ways=source_sides.by_pages, read_again=healing.ask_for_keys),
    "topics": KindProof(ways=source_sides.by_topic),
}


def proof_of(source: HasKind) -> KindProof:
    """How a source's kind is proven.

    Raises:
        LookupError: there is no row for the kind.
    """
    return row_of(PROOF, source.kind_name, __name__)
