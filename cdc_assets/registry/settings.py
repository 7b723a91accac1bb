"""Where things are: every address is an environment variable, or comes from the running embedded stack.

Nothing is resolved while definitions load; a missing address is an error of the run that needs it.
The stack writes the state `{"environment": {NAME: value}, "keys": {address: file}}` into `$CDC_HOME/stack.json`; the
environment wins over it. `keys` name the files that hold what the stack's own addresses ask for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from cdc_assets.registry.durable_file import read_json
from cdc_assets.registry.errors import MissingAddressError, MissingSecretError, SettingError
from cdc_assets.registry.references import EnvRef, SecretRef
from spark.errors import JobRefusedError
from spark.table.lake_location import store_place

_WHAT = {
    "CDC_CORE_BOOTSTRAP": "the core Kafka cluster (host:port)",
    "CDC_LAKE_BOOTSTRAP": "the lake's Kafka cluster (host:port)",
    "CDC_CORE_CONNECT": "the REST address of the Connect cluster that runs Debezium",
    "CDC_LAKE_CONNECT": "the REST address of the Connect cluster that runs MirrorMaker 2",
    "CDC_SPARK_REMOTE": "the Spark Connect server (sc://host:port)",
    "CDC_DAGSTER_URL": "the Dagster webserver",
}
SET_BY_STACK = frozenset(_WHAT) | {
    "CDC_HOME",
    "CDC_LAKE",
    "CDC_CONNECT_SECRETS",
    "CDC_CONNECT_BOUND",
    "CDC_CORE_LOGIN",
    "CDC_LAKE_LOGIN",
    "CDC_POSTGRES_HOST",
    "CDC_POSTGRES_PORT",
    "DAGSTER_HOME",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_DEFAULT_REGION",
    "STORAGE_EMULATOR_HOST",
}
"""What every embedded stack writes into `stack.json`: of no other variable is starting it a help."""
CONNECT_BOUND = "CDC_CONNECT_BOUND"
"""The `producer.max.request.size` (bytes) of core workers that have the converters of stack.own_converters; unset: they lack
them."""
OF_TRACES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME")
"""What the stack remembers of a collector; its headers hold a key."""
JMX = "CDC_JMX"
"""`on`: the embedded JVMs serve figures of their own to Prometheus. CDC_JMX_CORE_KAFKA and the like say where one is served."""
_OF_CORE = re.compile(r"CDC_CORE_(\w+)_(BOOTSTRAP|CONNECT)")


def _meaning(name: str) -> str:
    if name in _WHAT or not (match := _OF_CORE.fullmatch(name)):
        return _WHAT.get(name, "it")
    return f"{_WHAT[f'CDC_CORE_{match[2]}']}, of the cluster {match[1].lower()} that a source names"


_GIVEN: ContextVar[Mapping[str, str] | None] = ContextVar("given", default=None)


@contextmanager
def only(values: Mapping[str, str]) -> Iterator[None]:
    """These variables and no others, within the block: what is rendered must not depend on where it is rendered."""
    token = _GIVEN.set(values)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def home() -> Path:
    """The folder that holds all local state."""
    return Path(os.environ.get("CDC_HOME") or Path.cwd() / ".cdc").absolute()


def sources_folder() -> Path:
    """The folder of the registry's YAML files: `CDC_SOURCES`, else what the stack was last brought up with, else that of the
    examples, or of none (`cdc up --no-examples`)."""
    override = os.environ.get("CDC_SOURCES") or _stack_environment().get("CDC_SOURCES")
    if override:
        return Path(override).absolute()
    return without_examples() if without_examples().is_dir() else example_sources()


def example_sources() -> Path:
    """The folder of the examples' registry files."""
    return Path(__file__).parents[1] / "sources"


def without_examples() -> Path:
    """A registry without a source, which is there after `cdc up --no-examples`."""
    return home() / "no-examples"


def user_definitions() -> str | None:
    """What CDC_DEFINITIONS names, else what the stack was last brought up with: a module, or the absolute path of a file.

    None where neither is set; a variable that is set and empty names nothing.
    """
    named = os.environ.get("CDC_DEFINITIONS")
    if named is None:
        named = _stack_environment().get("CDC_DEFINITIONS")
    return str(Path(named).absolute()) if named and is_file_name(named) else named or None


def places_of_shell() -> dict[str, str]:
    """What this shell names of sources, definitions, alerts, lake, drivers, JMX and traces, with whole paths: the processes
    of the stack have other working folders. An empty CDC_DEFINITIONS or CDC_ALERTS stays, as for JMX and traces."""
    places = {}
    if os.environ.get("CDC_SOURCES"):
        places["CDC_SOURCES"] = str(sources_folder())
    if "CDC_DEFINITIONS" in os.environ:
        places["CDC_DEFINITIONS"] = user_definitions() or ""
    if (alerts := os.environ.get("CDC_ALERTS")) is not None:
        places["CDC_ALERTS"] = str(Path(alerts).absolute()) if alerts else ""
    if (root := os.environ.get("CDC_LAKE")) and "://" not in root:
        places["CDC_LAKE"] = str(Path(root).absolute())
    if drivers := os.environ.get("CDC_VENDOR_DRIVERS"):
        places["CDC_VENDOR_DRIVERS"] = drivers
    return places | {name: os.environ[name] for name in (*OF_TRACES, JMX) if name in os.environ}


def is_file_name(named: str) -> bool:
    """Whether that is a file's name, and not a module's."""
    return named.endswith(".py") or os.sep in named


def lake() -> str:
    """The root of the Delta tables. Of one in an object store this process has the stack's address and keys from then on.

    Raises:
        SettingError: no lake can lie there.
    """
    root = check_lake(lookup("CDC_LAKE") or str(home() / "lake"))
    if "://" in root and _GIVEN.get() is None:
        _export_stores()
    return root


def check_lake(root: str) -> str:
    """The root as paths below it begin.

    Raises:
        SettingError: no lake can lie there.
    """
    if "://" not in root:
        return root
    try:
        store_place(root.rstrip("/"))
    except JobRefusedError as error:
        raise SettingError(f"{error} (docs/how-to/object-store-lake.md)") from error
    return root.rstrip("/")


def lookup(name: str) -> str | None:
    """A variable from the environment, else from the running stack, else None."""
    values = _GIVEN.get()
    if values is not None:
        return values.get(name)
    return os.environ.get(name) or _stack_environment().get(name)


def jmx_addresses() -> dict[str, str]:
    """Where JVMs serve figures of their own, by their names: those of the running stack, and what the environment says."""
    variables = {**_stack_environment(), **os.environ}
    return {
        name.removeprefix(f"{JMX}_").lower().replace("_", "-"): variables[name]
        for name in sorted(variables)
        if name.startswith(f"{JMX}_") and variables[name]
    }


def address(name: str) -> str:
    """The address called `name`.

    Raises:
        MissingAddressError: saying what it is and how to set it.
    """
    value = lookup(name)
    if not value:
        raise MissingAddressError(name, _meaning(name), is_of_stack=name in SET_BY_STACK)
    return value


def variable(cluster: str, what: str) -> str:
    """What is set for a cluster: `CDC_CORE_CONNECT`, `CDC_LAKE_LOGIN`; of a core cluster called erp `CDC_CORE_ERP_CONNECT`."""
    prefix = cluster if cluster in ("core", "lake") else f"core_{cluster}"
    return f"CDC_{prefix.upper()}_{what}"


def core_clusters(what: str) -> list[str]:
    """The core clusters that have such an address (`BOOTSTRAP`, `CONNECT`), `core` first; that one alone, where none has."""
    values = _GIVEN.get()
    variables = values if values is not None else {**_stack_environment(), **os.environ}
    named = (re.fullmatch(rf"CDC_CORE_(\w+)_{what}", name) for name, value in variables.items() if value)
    clusters = sorted({name[1].lower() for name in named if name})
    return ["core", *clusters] if lookup(variable("core", what)) or not clusters else clusters


def login(cluster: str, bootstrap: str | None = None) -> str:
    """The path of the client.properties for the Kafka cluster of that name; empty where it asks for no login.

    The stack's own goes to no other `bootstrap` (by default the address of that cluster) than the stack's.
    """
    named, keys = lookup(variable(cluster, "LOGIN")) or "", _stack().get("keys", {})
    server = bootstrap or lookup(variable(cluster, "BOOTSTRAP")) or ""
    return "" if named in keys.values() and keys.get(server) != named else named


def resolve(value: str | int | EnvRef) -> str:
    """A literal as it is, a reference looked up."""
    if not isinstance(value, EnvRef):
        return str(value)
    resolved = lookup(value.env) or value.default
    if resolved is None:
        meaning = "the value that the registry refers to"
        raise MissingAddressError(value.env, meaning, is_of_stack=value.env in SET_BY_STACK)
    return resolved


def secret(reference: SecretRef) -> str:
    """The secret's value: `CDC_SECRET_<NAME>`, else the file `$CDC_HOME/secrets/<name>`.

    Raises:
        MissingSecretError: naming both places.
    """
    variable = "CDC_SECRET_" + reference.secret.upper().replace("-", "_").replace(".", "_")
    if os.environ.get(variable):
        return os.environ[variable]
    file = home() / "secrets" / reference.secret
    try:
        return file.read_text(encoding="utf-8").rstrip("\n")
    except OSError:
        raise MissingSecretError(reference.secret, (f"the variable {variable}", f"the file {file}")) from None


def key(place: str, variable: str | None = None) -> str:
    """What the address `place` asks for: the text of the file that `variable` names, else of the stack's own for that address.

    Empty where it asks for nothing. A key of the stack is given to no other address.

    Raises:
        MissingSecretError: the file cannot be read.
    """
    named = (variable and lookup(variable)) or _stack().get("keys", {}).get(place)
    if not named:
        return ""
    try:
        return Path(named).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise MissingSecretError(place, (f"the file {named} ({error.strerror})",)) from None


def is_of_stack(place: str) -> bool:
    """Whether the address `place` is one of the running stack's own, and not one that others serve."""
    return place in _stack().get("keys", {})


def export_stack_environment() -> None:
    """Put what the stack says into this process's environment, where it is not set: for vendor SDKs."""
    _export_stores()
    for name, value in _stack_environment().items():
        os.environ.setdefault(name, value)


def _export_stores() -> None:
    """The embedded S3 endpoint comes with its own credentials: a user's own AWS keys are not for it. GCS's key is its path."""
    variables = _stack_environment()
    if "AWS_ENDPOINT_URL_S3" not in os.environ:
        os.environ.update((name, value) for name, value in variables.items() if name.startswith("AWS_"))
    if "STORAGE_EMULATOR_HOST" in variables:
        os.environ.setdefault("STORAGE_EMULATOR_HOST", variables["STORAGE_EMULATOR_HOST"])


def _stack_environment() -> dict[str, str]:
    return dict(_stack().get("environment", {}))


def _stack() -> dict[str, dict[str, str]]:
    return dict(read_json(home() / "stack.json") or {})


def caller() -> str:
    """The account that asks; with who became it by sudo, or the name that a job gives itself by CDC_USER."""
    import getpass

    try:
        account = getpass.getuser()
    except (OSError, KeyError):
        account = str(os.getuid())
    behind = os.environ.get("CDC_USER") or os.environ.get("SUDO_USER")
    return f"{behind} ({account})" if behind and behind != account else account
