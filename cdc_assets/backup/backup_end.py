"""Where a table's backup ends, asked of more than its manifests: what lies behind the last one may be gone with all that names
it. Four witnesses tell, and who writes the bucket reaches only the first three.

    _newest            names the newest manifest (cdc_assets.backup.manifest)
    plans              a plan is written before its batch, so one behind the end tells of batches between
    kept cuts          a cut is kept once the backup holds it
    this machine       remembers below CDC_HOME how far the backup had come
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.backup.backup_position import BackupPosition
from cdc_assets.backup.kept_cuts import KeptCut, names_of_cuts, read_cut
from cdc_assets.backup.manifest import BatchPlan, Manifest, newest_differences
from cdc_assets.backup.manifest_chain import BackupBase
from cdc_assets.backup.object_layout import is_batch_name, manifests_prefix, object_name, parse_object_name, plans_prefix
from cdc_assets.clients.object_store import ObjectStore, StoredObject
from cdc_assets.registry.errors import BackupError, StoreError
from cdc_assets.registry.source_state import SourceState
from spark.errors import quantity

_SECTION = "backups"


@dataclass(frozen=True)
class SeenEnd:
    """How far a backup had come: `key` is its newest manifest, `records` are those of its epoch up to `positions`."""

    key: str
    topic_id: str
    epoch: int
    positions: Mapping[int, int]
    records: int

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SeenEnd:
        """From its JSON object, whose keys are strings."""
        return cls(**{**document, "positions": {int(p): end for p, end in document["positions"].items()}})

    def is_lost(self, now: BackupPosition) -> bool:
        """Whether the backup ends before that. One of a topic that was made since is of another life, and began anew."""
        is_other_life = now.epoch >= self.epoch and now.topic_id != self.topic_id
        return self.records > 0 and not is_other_life and not now.holds(self.epoch, self.positions, self.records)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        positions = {str(partition): end for partition, end in self.positions.items()}
        return {**asdict(self), "positions": positions}


def remember_end(store: ObjectStore, newest: Manifest) -> None:
    """Note how far the backup has come. One that ends earlier than it did is not noted: the loss stays told.

    A topic of another id in the same epoch is another life of the table, whose backup begins anew.
    """
    now, table = BackupPosition.after(newest), newest.plan.table

    def later(remembered: dict[str, Any] | None) -> dict[str, Any]:
        ends: dict[str, Any] = dict(remembered or {})
        noted = ends.get(store.url, {}).get(table)
        before = SeenEnd.from_json(noted) if noted else None
        if before is None or not before.is_lost(now):
            seen = SeenEnd(newest.key, now.topic_id, now.epoch, now.positions, now.records)
            ends[store.url] = {**ends.get(store.url, {}), table: seen.to_json()}
        return ends

    SourceState(newest.plan.source, _SECTION).change(later)


def end_on_this_machine(store: ObjectStore, source: str, table: str) -> SeenEnd | None:
    """How far this machine has seen the backup come; None: it never has."""
    noted = (SourceState(source, _SECTION).read() or {}).get(store.url, {}).get(table)
    return SeenEnd.from_json(noted) if noted else None


def forget_ends(source: str) -> None:
    """Forget how far backups of the source had come: they were removed."""
    SourceState(source, _SECTION).write(None)


def manifest_gone(store: ObjectStore, source: str, table: str, now: BackupPosition) -> str:
    """The manifest that this machine has seen as the newest, where the backup ends before it now; empty: it does not."""
    seen = end_on_this_machine(store, source, table)
    return seen.key if seen is not None and seen.is_lost(now) else ""


EarlierEnds = Mapping[str, SeenEnd]
"""By witness, in words for people."""


def earlier_ends(store: ObjectStore, source: str, table: str) -> EarlierEnds:
    """How far the newest kept cut and this machine say that the backup goes. Asked before the backup is listed: one that goes on
    meanwhile is ahead of them.

    Raises:
        StoreError: the store cannot be asked.
    """
    ends = dict[str, SeenEnd]()
    cut = next((cut for name in reversed(names_of_cuts(store, source)) if (cut := _cut(store, source, name))), None)
    topics = cut.tables.get(table, {}) if cut is not None else {}
    for state in topics.values() if len(topics) == 1 else ():
        positions = {int(partition): end for partition, end in state["ends"].items()}
        assert cut is not None
        ends[f"kept cut {cut.cut}"] = SeenEnd(cut.cut, state["id"], state["epoch"], positions, state["records"])
    if seen := end_on_this_machine(store, source, table):
        ends[f"{seen.key}, which this machine has seen,"] = seen
    return ends


def _cut(store: ObjectStore, source: str, name: str) -> KeptCut | None:
    try:
        return read_cut(store, source, name)
    except BackupError:
        return None  # named as what is wrong with the cuts


@dataclass(frozen=True)
class BackupListing:
    """What lies below a table's prefix: `all_listed`, of which `listed` is what is not of before the base; the manifests that
    were read, by key, and instead of one that cannot be read why. `read` gives an object's bytes."""

    store: ObjectStore
    source: str
    table: str
    all_listed: Mapping[str, StoredObject]
    listed: Mapping[str, StoredObject]
    manifests: Mapping[str, Manifest | str]
    read: Callable[[StoredObject], bytes]
    earlier: EarlierEnds
    plans: Mapping[str, BatchPlan | str]
    base: BackupBase | None = None

    @property
    def end(self) -> BackupPosition:
        """Where the backup ends by its manifests; those that cannot be read are not asked."""
        whole = [manifest for manifest in self.manifests.values() if isinstance(manifest, Manifest)]
        return BackupPosition.after(whole[-1]) if whole else BackupPosition()

    def differences(self) -> Iterator[str]:
        """What the first witness says that knows of an end behind that: the others would tell the same loss again."""
        yield from next(filter(None, map(list, self._witnesses())), [])

    def _witnesses(self) -> Iterator[Iterator[str]]:
        of = (self.source, self.table)
        yield newest_differences(self.store, self.all_listed, self.manifests, of=of, read=self.read)
        if all(isinstance(manifest, Manifest) for manifest in self.manifests.values()):
            # Else the backup ends before what cannot be read, which is told already.
            yield self._by_earlier_ends()
            yield self._by_plans()

    def _by_plans(self) -> Iterator[str]:
        end = self.end
        for key, plan in self.plans.items():
            if not isinstance(plan, BatchPlan) or plan.epoch != max(end.epoch, 0):
                continue
            begins = {partition: start for partition, (start, _) in plan.ranges.items()}
            is_behind = any(start > end.positions.get(partition, 0) for partition, start in begins.items())
            if is_behind and not self._has_grown():
                yield (
                    f"{key} plans a batch that begins at {begins}, and the manifests end at {dict(end.positions)}: what lay "
                    "between is not in the backup"
                )
                return

    def _has_grown(self) -> bool:
        # A listing goes by folders: a batch that became whole since is seen by its successor's plan first.
        newest = max(self.manifests, default="")
        later = self.store.list(manifests_prefix(self.source, self.table), after=newest)
        return any(is_batch_name(item.key.rpartition("/")[2]) for item in later)

    def _by_earlier_ends(self) -> Iterator[str]:
        for witness, earlier in self.earlier.items():
            end, is_gone = self.end, self.base is not None and earlier.epoch < self.base.epoch
            if not is_gone and earlier.is_lost(end):
                has = "nothing"
                if end.epoch >= 0:
                    has = f"{quantity(end.records, 'record')} up to {dict(end.positions)} of epoch {end.epoch}"
                yield (
                    f"{self.source}/{self.table}: {witness} has {quantity(earlier.records, 'record')} up to "
                    f"{dict(earlier.positions)} of epoch {earlier.epoch}, and the manifests have {has}: what lay behind is not "
                    "in the backup"
                )
                return


def plans_without_manifest(
    store: ObjectStore, source: str, table: str, keys: Mapping[str, object], manifests: Mapping[str, object]
) -> dict[str, BatchPlan | str]:
    """Plans without a manifest by their keys, `keys` being those of the table; instead of one that cannot be read why."""
    folder, plans = manifests_prefix(source, table), plans_prefix(source, table)
    names = sorted(key.removeprefix(plans) for key in keys if key.startswith(plans))
    left = [name for name in names if is_batch_name(name) and folder + name not in manifests]
    return {plans + name: read_plan(store, plans + name) for name in left}


def read_plan(store: ObjectStore, key: str) -> BatchPlan | str:
    """The plan that lies at `key`; why it cannot be read."""
    try:
        plan = BatchPlan.from_bytes(store.get(key), key=key)
    except (BackupError, StoreError) as error:
        return str(error)
    return plan if key in (plan.key, plan.epoch_key) else f"{key} holds the plan of {plan.key}"


def is_planned(key: str, plan: BatchPlan | str) -> bool:
    """Whether a batch that was planned so writes an object of this key."""
    numbers = parse_object_name(key)
    if isinstance(plan, str) or numbers is None:
        return False
    epoch, partition, offset = numbers
    first, end = plan.ranges.get(partition, (0, 0))
    return (
        first <= offset < end
        and key.rsplit("/", 1)[-1] == object_name(plan.topic, plan.epoch, partition, offset)
        and (epoch == plan.epoch)
    )
