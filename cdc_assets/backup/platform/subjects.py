"""The subjects of a source's tables in Avro: their schemas by id are what its records can be read with."""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.schema_subjects import SchemaSubjects, Version


def find_subjects(source: BaseSource) -> dict[str, list[Version]]:
    """By subject its versions, of those that there are.

    Raises:
        SubjectsError: the registry does not answer.
    """
    found = {subject: SchemaSubjects(registry).versions(subject) for subject, registry in registries_of(source).items()}
    return {subject: versions for subject, versions in found.items() if versions}


def registries_of(source: BaseSource) -> dict[str, str]:
    """By subject the registry's address: keys and values have one each, named as Confluent's converters name them."""
    forms = {names.topic(source, table): source.record_form(table)["schema_registry"] for table in source.tables}
    return {f"{topic}-{part}": registry for topic, registry in forms.items() if registry for part in ("key", "value")}
