"""The steps of a removal, in the order in which nothing is lost and nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cdc_assets import names, settings
from cdc_assets.defs.declared_chains import take_in_sources
from cdc_assets.errors import DatabaseError, DefinitionsError, RemovalError
from cdc_assets.kinds import kind_of
from cdc_assets.onboarding.state import only_one
from cdc_assets.registry.models import BaseSource
from cdc_assets.removal import connectors, data
from cdc_assets.removal.at_source import traces_of
from cdc_assets.removal.registry_file import DeclaredIn, put_aside
from cdc_assets.removal.trace import Trace
from cdc_assets.removal.words import AT_SOURCE, PartsChosen
from cdc_assets.resources.platform import Platform

Say = Callable[[str], None]


@dataclass
class Removal:
    """What is to go of one source, and what came of it: `gone` and `left`, for people."""

    platform: Platform
    declared: DeclaredIn
    choice: PartsChosen
    say: Say
    gone: list[str] = field(default_factory=list)
    left: list[Trace] = field(default_factory=list)

    @property
    def source(self) -> BaseSource:
        """The source that is to go."""
        return self.declared.source


@dataclass(frozen=True)
class SourcePart:
    """One part of a source. `what` names it, for a plan."""

    word: str
    what: Callable[[BaseSource], str]
    run: Callable[[Removal], list[str]]


def plan(source: BaseSource, choice: PartsChosen) -> list[dict[str, Any]]:
    """Each part of the source, in order; nothing is asked of a service."""
    return [{"word": s.word, "action": "remove" if s.word in choice.gone else "keep", "what": s.what(source)} for s in STEPS]


def remove(removal: Removal) -> None:
    """Take every part away that is to go; may be repeated, also after a kill.

    Raises:
        RemovalError: the connector is kept, and what it reads from is not.
        CdcAssetsError: a service cannot be asked, or refuses; what is done stays done.
    """
    choice, source = removal.choice, removal.source
    needed = sorted({"slot", "publication"} & choice.gone) if _has_slot(source) else []
    if "connector" not in choice.gone and needed and (name := connectors.running_capture(removal.platform, source)):
        raise RemovalError(f"connector {name} is to be kept, and reads from them: --keep connector,{','.join(needed)}")
    with only_one(source.name):
        for step in STEPS:
            if step.word in choice.gone:
                removal.say(f"{step.word}: {step.what(source)}")
                removal.gone += step.run(removal)
        data.forget_state(source)
        if "registry" in choice.deleted and removal.declared.aside:
            removal.declared.file.unlink(missing_ok=True)
            removal.gone.append(f"file {removal.declared.file}")


def _at_source(word: str) -> Callable[[Removal], list[str]]:
    def run(removal: Removal) -> list[str]:
        traces = traces_of(removal.source)
        if traces is None:
            return []
        gone = []
        try:
            for trace in traces.find():
                if trace.word != word:
                    continue
                if (trace.ours or word in removal.choice.deleted) and traces.drop(trace):
                    gone.append(trace.what)
                else:
                    removal.left.append(trace)
        except DatabaseError as error:
            keep = f"cdc remove {removal.source.name} --keep {','.join(AT_SOURCE)}"
            raise RemovalError(f"{error}. Where that server is gone for good: {keep}") from error
        return gone

    return run


def _registry(removal: Removal) -> list[str]:
    gone = []
    if not removal.declared.aside:
        before = removal.declared.file
        removal.declared = put_aside(removal.declared)
        gone = [f"file {before} is {removal.declared.file.name} now"]
    if url := settings.lookup("CDC_DAGSTER_URL"):
        gone += _out_of_dagster(url, removal)
    return gone


def _out_of_dagster(url: str, removal: Removal) -> list[str]:
    """Before topics and lake go: the source's sensor would ask for what is not there."""
    name = removal.source.name
    try:
        take_in_sources(url, [], gone=[name], say=removal.say)
    except DefinitionsError as error:
        removal.say(f"Dagster shows {name} until it has reloaded: {error}")
        return []
    return [f"assets, checks, jobs and sensors of {name} in Dagster at {url}"]


def _connector(source: BaseSource) -> str:
    return names.connector_name(source) if getattr(source, "database", None) else "this source has none"


def _mirror(removal: Removal) -> list[str]:
    return connectors.remove_mirror(removal.platform, removal.source, forget="topics" in removal.choice.gone)


def _topics(source: BaseSource) -> str:
    return ", ".join(dict.fromkeys((*data.core_topics(source), *data.lake_topics(source)))) or "none of ours: others fill them"


def _remove_topics(removal: Removal) -> list[str]:
    removal.left += data.topics_of_git(removal.platform, removal.source)
    return data.remove_topics(removal.platform, removal.source)


def _backup(source: BaseSource) -> str:
    store = source.backup and source.backup.store
    return f"objects below {store.bucket}/{store.prefix}/{source.name}" if store else "none declared"


def _slot(source: Any) -> str:
    return names.slot_name(source) if _has_slot(source) else "this source has none"


def _publication(source: Any) -> str:
    if not _has_slot(source):
        return "this source has none"
    declared = source.capture.publication
    return f"{declared} (declared by name: it stays unless --delete publication)" if declared else names.publication_name(source)


def _has_slot(source: BaseSource) -> bool:
    return kind_of(source).has_slot


def _tables(source: BaseSource) -> str:
    return f"ours in {names.SIGNAL_SCHEMA} at the source" if traces_of(source) else "this source has none of ours"


def _on_lake_connect(source: BaseSource) -> str:
    from cdc_assets.connectors.inventory import connector_owners

    return ", ".join(name for name in connector_owners([source]) if name != names.connector_name(source)) or "none"


STEPS = (
    SourcePart("connector", _connector, lambda r: connectors.remove_capture(r.platform, r.source)),
    SourcePart("slot", _slot, _at_source("slot")),
    SourcePart("publication", _publication, _at_source("publication")),
    SourcePart("tables", _tables, _at_source("tables")),
    SourcePart("mirror", _on_lake_connect, _mirror),
    SourcePart("registry", lambda source: f"the file that declares {source.name}", _registry),
    SourcePart("topics", _topics, _remove_topics),
    SourcePart(
        "lake",
        lambda source: ", ".join(data.lake_folders(settings.lake(), source)),
        lambda r: data.remove_lake(r.platform, r.source),
    ),
    SourcePart("backup", _backup, lambda r: data.remove_backup(r.platform, r.source)),
)
