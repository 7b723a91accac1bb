"""The commit that makes files of restored tables bronze: all of them, with the states that they stand for, or nothing."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cdc_assets.errors import RestoreError
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.restore.backed_up_table import BackedUpTable
from cdc_assets.restore.kept_groups import File, KeptGroups
from cdc_assets.restore.restore_request import RestoreRequest
from cdc_assets.restore.row_groups import Reached
from spark.delta.commits import fold
from spark.delta.topic_commits import CommittedTopic
from spark.errors import LeftToSparkError


@dataclass(frozen=True)
class TableFiles:
    """A table's files, and what they make of its topic."""

    found: BackedUpTable
    reached: Reached
    files: Sequence[File]

    @property
    def topic(self) -> str:
        """The topic that its records are of."""
        return [*self.found.epochs, *(manifest.plan for manifest in self.found.manifests)][-1].topic

    @property
    def state(self) -> CommittedTopic:
        """What bronze has committed of it then."""
        assert self.reached.state is not None
        return self.reached.state


def commit_tables(request: RestoreRequest, ready: Sequence[TableFiles]) -> None:
    """By one commit, which says the state of each and no share of its own: no record of these is new to a backup or the ledger.

    Raises:
        RestoreError: somebody else has written bronze meanwhile.
    """
    if not ready:
        return
    kept = KeptGroups(request.path)
    for each in ready:
        kept.note_state(each.found.table, request.point_note(each.found.table), each.state)
    files = [file for each in ready for file in each.files]
    try:
        _commit(request, ready, files)
    except LeftToSparkError as error:
        raise RestoreError(f"{request.path} is not restored yet: {error}; run the same command again, it goes on") from error
    kept.forget({each.found.table for each in ready}, {file["path"] for file in files})


def _commit(request: RestoreRequest, ready: Sequence[TableFiles], files: Sequence[File]) -> None:
    from spark.delta.lease import lend_to_task
    from spark.small_batches.commit import commit_files
    from spark.specs import BronzeSpec

    with lend_to_task(request.path):
        committed = bronze_committed(request.path) or fold([])
        if committed.version >= 0 and not committed.topics:
            raise RestoreError(
                f"{request.path} is a table of somebody else; nothing is changed. Name another lake: --into FOLDER"
            )
        if taken := sorted(each.found.table for each in ready if committed.of_table(each.found.table)):
            raise RestoreError(
                f"{request.path} has records of {', '.join(taken)} since a moment ago: a run of {request.source.name} reads its "
                "topics. Stop its sensor, move that folder away, and run the same command again"
            )
        states = {**committed.topics, **{each.topic: each.state for each in ready}}
        spec = BronzeSpec(request.path, "", (), f"restore:{uuid.uuid4().hex}")
        commit_files(spec, replace(committed, topics=states), files, {})
