"""What the declared sources ask of the embedded stack: connectors' jars, and the buckets that their backups name."""

from __future__ import annotations

import os
from collections.abc import Mapping

from cdc_assets import settings
from cdc_assets.kinds import Kind, kind_of
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.errors import RegistryError
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.stack.avro_converter import PLUGIN as AVRO
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.home import Home, read_json
from spark.lake.place import store_place

_ALWAYS = "debezium-postgres"
REMEMBERED = ("CDC_SOURCES", "CDC_DEFINITIONS", "CDC_ALERTS", "CDC_VENDOR_DRIVERS", settings.JMX, *settings.OF_TRACES)


def needing_drivers() -> list[str]:
    """Declared kinds whose driver has a licence of its vendor's own, which nobody has accepted here."""
    return sorted(row.name for row in _kinds_of_databases() if not _plugin(row))


def java_modules_needed() -> dict[str, str]:
    """By the declared kind, the module of Java without which its connector captures other texts than the source has."""
    return {row.name: row.java_module for row in _kinds_of_databases() if row.java_module}


def plugins() -> tuple[str, ...]:
    """What the core Connect worker needs: Debezium's connector for PostgreSQL, those of other kinds of sources declared, and the
    converter of those that are captured in Avro."""
    declared = sorted({plugin for row in _kinds_of_databases() if (plugin := _plugin(row))} - {_ALWAYS})
    captures = [source.captured.capture for source in _sources() if source.captured]
    avro = any(capture.in_avro and capture.converter == "apicurio" for capture in captures)
    return (_ALWAYS, *declared, *([AVRO] if avro else []))


def _plugin(row: Kind) -> str | None:
    """The set of jars; of a kind with a vendor's driver, where CDC_VENDOR_DRIVERS accepts that."""
    accepted = [name.strip() for name in (settings.lookup("CDC_VENDOR_DRIVERS") or "").split(",")]
    return row.plugin or (row.vendor_plugin if row.name in accepted else None)


def buckets() -> Mapping[str, tuple[str, ...]]:
    """Per kind of store, the buckets of the lake and of the sources' backups that are at the provider's default endpoint, which
    is ours here."""
    stores = [source.backup.store for source in _sources() if source.backup]
    found = {(store.kind, store.bucket) for store in stores if not store.endpoint}
    root = settings.check_lake(os.environ.get("CDC_LAKE", ""))
    if "://" in root:
        place = store_place(root)
        found.add((place.kind, place.bucket))
    ours = sorted(found)
    return {kind: tuple(bucket for k, bucket in ours if k == kind) for kind, _ in ours}


def lake_root(home: Home) -> str:
    """The root of the Delta tables: as this start names it, else a folder of the stack."""
    return settings.check_lake(os.environ.get("CDC_LAKE") or str(home.lake))


def lake_sets() -> tuple[str, ...]:
    """The sets of jars with which Spark reaches the lake's store; none for a local lake."""
    root = settings.check_lake(os.environ.get("CDC_LAKE", ""))
    return (f"spark-{store_place(root).kind}",) if "://" in root else ()


def jmx_sets() -> tuple[str, ...]:
    """The agent that serves a JVM's own figures, where somebody asked for it.

    Raises:
        StackError: CDC_JMX says something else.
    """
    asked = os.environ.get(settings.JMX)
    if asked is None:
        asked = settings.lookup(settings.JMX)
    if asked not in (None, "", "on"):
        raise StackError("up", f"{settings.JMX}={asked}: it is `on`, or empty", f"{settings.JMX}=on ./cdc up")
    return ("jmx",) if asked else ()


def places_to_remember(home: Home) -> dict[str, str]:
    """What the shell's variables of these names say, else what the stack was brought up with before; without those that name
    nothing."""
    found = {**read_json(home.stack).get("environment", {}), **settings.places_of_shell()}
    return {name: found[name] for name in REMEMBERED if found.get(name)}


def _kinds_of_databases() -> list[Kind]:
    """The kinds of the databases that are captured, each once."""
    return list({row.name: row for source in _sources() if source.captured and (row := kind_of(source))}.values())


def _sources() -> tuple[BaseSource, ...]:
    try:
        return load_sources(settings.sources_folder())
    except RegistryError:
        return ()  # whoever asks for the sources themselves says what is wrong
