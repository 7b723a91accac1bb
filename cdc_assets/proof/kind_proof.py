"""How rows and changes of each kind of source are proven, a row each.

The table stands above the files of the kinds, and imports them. Modules below it that act by a source's kind import it when they
are called, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import comparison_choice, flow_witnesses, healing, two_step_comparison
from cdc_assets.proof.capture_flow import Witness
from cdc_assets.proof.comparison_at_cut import ComparisonScope
from cdc_assets.proof.comparison_choice import StandbyServer
from cdc_assets.proof.comparison_result import TableResult
from cdc_assets.registry.kinds import HasKind, row_of
from cdc_assets.registry.table_declaration import Table

if TYPE_CHECKING:
    from spark.specs import SilverSpec

CompareRows = Callable[[Chain[Any], Sequence[Table], ComparisonScope], dict[str, TableResult]]


@dataclass(frozen=True, kw_only=True)
class KindProof:
    """How one kind is proven. A field that is None is what this kind does not have: its feature is missing, and nothing else."""

    compare: CompareRows | None = None
    """Rows of the source compared with silver, by short table name; what stands in the way is a result as well."""
    standby: Callable[[Any, str], StandbyServer] | None = None
    """`(source, host:port)`: a standby that rows can be read from."""
    read_again: Callable[[Any, Table, SilverSpec, Sequence[str]], object] | None = None
    """`(source, table, spec, keys)`: asks the connector for these keys (texts) again."""
    witness: Callable[[Any], Witness] | None = None
    """What the server knows of its own changes, of what stands below `database:`; the check `events_flow`."""


PROOF: Mapping[str, KindProof] = {
    "postgresql": KindProof(
        compare=comparison_choice.compare_as_declared,
        standby=comparison_choice.standby_of,
        read_again=healing.by_signals_of_ours,
        witness=flow_witnesses.PostgresWitness,
    ),
    "mariadb": KindProof(
        compare=comparison_choice.compare_as_declared,
        read_again=healing.by_signals_of_ours,
        witness=flow_witnesses.mariadb_witness,
    ),
    "mysql": KindProof(
        compare=comparison_choice.compare_locked,
        read_again=healing.ask_for_keys,
        witness=flow_witnesses.mysql_witness,
    ),
    "sqlserver": KindProof(compare=two_step_comparison.compare_paged, read_again=healing.ask_for_keys),
    "oracle": KindProof(compare=two_step_comparison.compare_paged, read_again=healing.ask_for_keys),
    "mongodb": KindProof(compare=two_step_comparison.compare_paged, read_again=healing.ask_for_keys),
    "topics": KindProof(compare=two_step_comparison.compare_with_topic),
}


def proof_of(source: HasKind) -> KindProof:
    """How a source's kind is proven. Raises LookupError: there is no row for the kind."""
    return row_of(PROOF, source.kind_name, __name__)
