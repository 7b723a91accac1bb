"""`cdc apply`: each source is judged whole, then its connectors are brought to what is declared, the capturing one first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cdc_assets import names
from cdc_assets.apply.partitions import publish_by_root
from cdc_assets.apply.signal_table import ensure_signal_table
from cdc_assets.apply.whole_source import judge_source
from cdc_assets.connectors.apply import Applied, bring_connector
from cdc_assets.connectors.capture import not_listed
from cdc_assets.connectors.declared_connectors import DeclaredConnector
from cdc_assets.connectors.inventory import connector_owners
from cdc_assets.connectors.owner import COMMIT
from cdc_assets.errors import CdcAssetsError, ConnectorFailedError
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform


@dataclass(frozen=True)
class Brought:
    """What has become of one connector: `applied`, or why not; `notes` are for a person, and no error.

    `refused`: a line for each of its tables that cannot be captured as it is.
    """

    connector: str
    applied: Applied | None = None
    error: str = ""
    late: str = ""
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def errors(self) -> list[str]:
        """What is not as declared."""
        return [*([self.error] if self.error else []), *self.refused]

    @property
    def told(self) -> list[str]:
        """What a person has to know of it, the errors first."""
        return [*self.errors, *self.notes]

    @property
    def line(self) -> str:
        """What was done, in one line."""
        assert self.applied is not None
        applied = self.applied
        changed = f" ({', '.join(applied.changed_keys)})" if applied.changed_keys else ""
        changed += f" (goes on from {quantity(applied.resumed_offsets, 'offset')})" if applied.resumed_offsets else ""
        owner = "" if applied.written else ", managed_by: gitops"
        tasks = quantity(len(applied.status.tasks), "task")
        return f"{applied.name}: {applied.summary}{changed}{owner}, {applied.status.state}, {tasks}"

    def to_json(self) -> dict[str, Any]:
        """As `cdc apply -o json` prints it."""
        if self.applied is None:
            return {"connector": self.connector, "summary": "failed", "error": "\n".join(self.errors)}
        return {**self.applied.to_json(), "tables_to_onboard": self.late, "error": "\n".join(self.errors) or None}


def bring_sources(platform: Platform, sources: Iterable[BaseSource], *, resume_offsets: bool = False) -> Iterator[Brought]:
    """One answer per declared connector; what fails of one source stops none of another."""
    for source in sources:
        try:
            judged = judge_source(platform, source)
        except CdcAssetsError as error:
            yield from _refusals(source, str(error))
            continue
        failed = ""
        for each in judged.connectors:
            if failed:
                yield Brought(each.name, error=f"connector {each.name}: left as it is, since {failed} does not run")
                continue
            brought = _bring(platform, each, resume_offsets=resume_offsets)
            failed = each.name if brought.applied is None and each.role == "capture" else ""
            yield replace(brought, refused=tuple(judged.messages)) if each.role == "capture" else brought


def _refusals(source: BaseSource, reason: str) -> Iterator[Brought]:
    first, *others = connector_owners([source])
    yield Brought(first, error=reason)
    for name in others:
        yield Brought(name, error=f"connector {name}: left as it is, since source {source.name} is refused")


def _bring(platform: Platform, declared: DeclaredConnector, *, resume_offsets: bool) -> Brought:
    connect, source, name = platform.connect(declared.cluster), declared.source, declared.name

    def hopeless() -> bool:
        return declared.role == "mirror" and _has_nothing_to_copy(platform, source)

    try:
        late = not_listed(source, connect.config(name)) if declared.role == "capture" else ""
        unsignalled = ensure_signal_table(source) if declared.role == "capture" else ""
        parted = publish_by_root(source) if declared.role == "capture" else ""
        applied = bring_connector(connect, source, declared.config, resume_offsets=resume_offsets, hopeless=hopeless)
    except CdcAssetsError as error:
        return Brought(name, error=str(error))
    if not applied.written and applied.changed_keys:
        keys = ", ".join(applied.changed_keys)
        differs = f"{name} differs from what is declared ({keys}) and is managed_by: gitops, nothing was written; {COMMIT}"
        return Brought(name, applied, differs)
    notes = [note for note in (unsignalled, parted) if note]
    if late:
        # A running connector takes no snapshot of what is added to its list.
        notes.append(f"{name}: only changes of {late} come from now on; for the rows too: cdc onboard {source.name} {late}")
    if applied.status.idle:
        notes.append(
            f"{name}: {'; '.join(applied.status.trace)}; they come with their first record, or from materializing topic/*"
        )
    return Brought(name, applied, late=late, notes=tuple(notes))


def _has_nothing_to_copy(platform: Platform, source: BaseSource) -> bool:
    """Whether none of its topics is there.

    Raises:
        ConnectorFailedError: and none will come, since what fills them has failed.
    """
    if platform.core_kafka(source.cluster).states([names.topic(source, table) for table in source.tables]):
        return False
    if source.captured is None:
        # Somebody else's producers fill them, so no Connect of the core has to be known.
        return True
    name = names.connector_name(source)
    status = platform.core_connect(source.cluster).status(name)
    if status is not None and status.failed:
        raise ConnectorFailedError(f"connector {name} is FAILED, so nothing comes to be copied: {'; '.join(status.trace)}")
    return True
