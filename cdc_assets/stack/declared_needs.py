"""What the declared sources ask of the embedded stack: connectors' jars, drivers, and the buckets of lake and backups.

A source that is declared while the stack runs is taken in where that is possible; where it is not, the error says that the
stack must start again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping

from cdc_assets.registry import settings
from cdc_assets.registry.durable_file import replace_json
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.kinds import Kind, kind_of
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.stack.home import Home, read_json
from cdc_assets.stack.own_converters import NULL_KEEPING_AVRO
from cdc_assets.stack.stack_errors import StackError
from spark.table.lake_location import store_place

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
    return (_ALWAYS, *declared, *([NULL_KEEPING_AVRO.plugin] if avro else []))


def _plugin(row: Kind) -> str | None:
    """The set of jars; of a kind with a vendor's driver, where CDC_VENDOR_DRIVERS accepts that."""
    accepted = [name.strip() for name in (settings.lookup("CDC_VENDOR_DRIVERS") or "").split(",")]
    return row.plugin or (row.vendor_plugin if row.name in accepted else None)


def buckets() -> Mapping[str, tuple[str, ...]]:
    """Per kind of store, the buckets of the lake and of the sources' backups that are at the provider's default endpoint, which
    is ours here."""
    stores = [source.backup.store for source in _sources() if source.backup]
    pairs = {(store.kind, store.bucket) for store in stores if not store.endpoint}
    root = settings.check_lake(os.environ.get("CDC_LAKE", ""))
    if "://" in root:
        lake = store_place(root)
        pairs.add((lake.kind, lake.bucket))
    ours = sorted(pairs)
    return {kind: tuple(bucket for k, bucket in ours if k == kind) for kind, _ in ours}


def lake_root(home: Home) -> str:
    """The root of the Delta tables: as this start names it, else a folder of the stack."""
    return settings.check_lake(os.environ.get("CDC_LAKE") or str(home.lake))


def lake_sets() -> tuple[str, ...]:
    """The sets of jars with which Spark reaches the lake's store; none for a local lake."""
    root = settings.check_lake(os.environ.get("CDC_LAKE", ""))
    return (f"spark-{store_place(root).kind}",) if "://" in root else ()


def jmx_sets() -> tuple[str, ...]:
    """The agent that serves a JVM's own figures, where somebody asked for it. Raises StackError: CDC_JMX says something else."""
    value = os.environ.get(settings.JMX)
    if value is None:
        value = settings.lookup(settings.JMX)
    if value not in (None, "", "on"):
        raise StackError("up", f"{settings.JMX}={value}: it is `on`, or empty", f"{settings.JMX}=on ./cdc up")
    return ("jmx",) if value else ()


def places_to_remember(home: Home) -> dict[str, str]:
    """What the shell's variables of these names say, else what the stack was brought up with before; without those that name
    nothing."""
    variables = {**read_json(home.stack).get("environment", {}), **settings.places_of_shell()}
    return {name: variables[name] for name in REMEMBERED if variables.get(name)}


def _kinds_of_databases() -> list[Kind]:
    return list({row.name: row for source in _sources() if source.captured and (row := kind_of(source))}.values())


def _sources() -> tuple[BaseSource, ...]:
    try:
        return load_sources(settings.sources_folder())
    except RegistryError:
        return ()  # whoever asks for the sources themselves says what is wrong


def remember_needs(home: Home, names: Collection[str]) -> None:
    """From now on what these variables name, or no longer name, is the stack's: its code server reads it at each load."""
    document = read_json(home.stack)
    before = document.get("environment", {})
    kept = {name: value for name, value in before.items() if name not in names}
    now = kept | {name: value for name, value in places_to_remember(home).items() if name in names}
    if now != before:
        replace_json(home.stack, {**document, "environment": now})


def adopt_sources(home: Home, supervisor: int) -> None:
    """From now on what CDC_SOURCES and CDC_DEFINITIONS name is the stack's; buckets that are wanted are made by the supervisor.
    Raises StackError: when a source needs a connector that the running Connect worker has not loaded, or the endpoint of GCS."""
    remember_needs(home, REMEMBERED)
    config = read_json(home.config)
    lacking = sorted(set(plugins()) - set(config.get("plugins", plugins())))
    if lacking and "CDC_CORE_CONNECT" not in config.get("external", {}):
        reason = f"a source needs {', '.join(lacking)}, which the worker that runs has not loaded"
        raise StackError("core-connect", reason, "./cdc down, then ./cdc up")
    needed = {kind: sorted({*names, *config.get("buckets", {}).get(kind, ())}) for kind, names in buckets().items()}
    if "gcs" in needed and not config.get("buckets", {}).get("gcs") and "STORAGE_EMULATOR_HOST" not in config.get("external", {}):
        reason = f"a source backs up to GCS (bucket {needed['gcs'][0]}), and the stack runs without its endpoint"
        raise StackError("gcs", reason, "./cdc down, then ./cdc up; or name another one by STORAGE_EMULATOR_HOST")
    if any(set(names) - set(config.get("buckets", {}).get(kind, ())) for kind, names in needed.items()):
        replace_json(home.config, {**config, "buckets": {**config.get("buckets", {}), **needed}})
        os.kill(supervisor, signal.SIGHUP)
