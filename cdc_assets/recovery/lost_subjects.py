"""A source's subjects in its schema registry, made again from the backup.

Each record in Avro names its schema by a number. So a schema comes back under the id that it had, or not at all:

    look       what the registry has under each id; another schema there stops all, before anything is written
    register   versions of all subjects in the order of their ids: by mode IMPORT where the registry has it, else as they come
    compare    the id that the registry gave; another one is taken back, and named

Killed at any point, the same call goes on: what is there is not registered again, and a subject left in IMPORT is let out of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cdc_assets.backup.platform_log import newest_section, registries_of
from cdc_assets.capture.onboarding.onboarding_state import only_one
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.schema_subjects import SchemaSubjects, Version
from cdc_assets.clients.source_chain import Say
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource


@dataclass(frozen=True)
class SubjectPlan:
    """A subject that lacks versions, or was left in mode IMPORT by a call that was killed."""

    subject: str
    registry: SchemaSubjects
    missing: tuple[Version, ...]
    is_left_in_import: bool = False

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of it."""
        ids = [version["id"] for version in self.missing]
        return {"subject": self.subject, "registry": self.registry.shown, "versions": len(ids), "ids": ids}


def plan_subjects(store: ObjectStore, source: BaseSource) -> list[SubjectPlan]:
    """Those of the source's tables that the backup has, and the registry has not, or not whole. Nothing is changed.

    Raises:
        RefusalError: the registry has something else under an id.
        ServiceError, BackupError, StoreError: the registry or the backup cannot be asked.
    """
    kept, registries = newest_section(store, source.name, "subjects"), registries_of(source)
    plans = [
        _plan(SchemaSubjects(registries[subject]), subject, kept[subject]) for subject in sorted(kept) if subject in registries
    ]
    return [plan for plan in plans if plan.missing or plan.is_left_in_import]


def restore_subjects(store: ObjectStore, source: BaseSource, say: Say) -> list[SubjectPlan]:
    """Register what is missing; empty where nothing is.

    Raises:
        RefusalError: the registry has, or gives, another id.
        ServiceError, BackupError, StoreError: as plan_subjects; the next call goes on.
    """
    with only_one(source.name):
        plans = plan_subjects(store, source)
        missing = [(version, plan) for plan in plans for version in plan.missing]
        # A registry that counts its ids gives them again in the order in which it gave them first.
        for version, plan in sorted(missing, key=lambda each: (each[0]["id"], each[1].subject)):
            say(f"{plan.subject}: schema {version['id']}, version {version['version']}")
            _register(plan, version)
        for plan in plans:
            if plan.is_left_in_import and plan.registry.is_in_import(plan.subject):
                plan.registry.end_import(plan.subject)
    return plans


def _plan(registry: SchemaSubjects, subject: str, kept: list[Version]) -> SubjectPlan:
    there = {int(version["id"]): version for version in registry.versions(subject)}
    for version in kept:
        registered = there.get(version["id"]) or registry.schema(version["id"])
        if registered is not None and not _is_same(registered, version):
            raise RefusalError(
                f"{registry.shown} has another schema under id {version['id']} than {subject} version {version['version']} had; "
                f"records would be read by the wrong one, so nothing was registered. {_WAYS}"
            )
        other = [schema_id for schema_id, one in there.items() if schema_id != version["id"] and _is_same(one, version)]
        if other and version["id"] not in there:
            raise RefusalError(
                f"{registry.shown} has {subject} version {version['version']} under id {other[0]}; in the records it is "
                f"{version['id']}, so nothing was registered. {_WAYS}"
            )
    missing = tuple(version for version in kept if version["id"] not in there)
    return SubjectPlan(subject, registry, missing, registry.is_in_import(subject))


_WAYS = (
    "Bring the registry's own backup back, or declare an empty registry (schema_registry: in the source's file), best one with "
    "mode IMPORT, and run the same command again"
)


def _register(plan: SubjectPlan, version: Version) -> None:
    with _import_mode(plan) as as_it_was:
        schema_id = plan.registry.register(plan.subject, version, as_it_was=as_it_was)
    if schema_id != version["id"]:
        plan.registry.forget(plan.subject, schema_id)
        raise RefusalError(
            f"{plan.registry.shown} gives {plan.subject} version {version['version']} the id {schema_id}; in the records it is "
            f"{version['id']}. That version was taken back; what came before it is right, and stays. {_WAYS}"
        )


@contextmanager
def _import_mode(plan: SubjectPlan) -> Iterator[bool]:
    """Whether the subject takes ids within the block; behind it, it takes none."""
    has_modes = plan.registry.begin_import(plan.subject)
    try:
        yield has_modes
    finally:
        if has_modes:
            plan.registry.end_import(plan.subject)


def _is_same(one: Version, other: Version) -> bool:
    # By what they say: a registry may write a schema's JSON in its own way.
    if (one.get("schemaType") or "AVRO") != (other.get("schemaType") or "AVRO"):
        return False
    if one["schema"] == other["schema"]:
        return True
    try:
        return bool(json.loads(one["schema"]) == json.loads(other["schema"]))
    except ValueError:
        return False
