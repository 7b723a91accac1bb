"""Dagster: one gRPC code server shared by the webserver and the daemon, storage in the embedded PostgreSQL.

A shared server saves a process, and makes both see the same definitions. Secrets reach dagster.yaml by env references only.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from typing_extensions import override

from cdc_assets.registry.registry_copy import KEPT
from cdc_assets.stack.component import Component, allocator_variables
from cdc_assets.stack.components import postgres_server, spark_connect_server
from cdc_assets.stack.declared_needs import REMEMBERED
from cdc_assets.stack.home import private_folder, read_json, socket_of, write_private
from cdc_assets.stack.loopback import HOST, local_channel
from cdc_assets.stack.stack_errors import NotReadyError, StackError

if TYPE_CHECKING:
    import grpc

MODULE = "cdc_assets.definitions"
TOKEN_VARIABLE = "CDC_DAGSTER_TOKEN"
"""By which the guard of the webserver is told its token."""
TOKEN = "dagster_token"
# Seconds that a call of the code server, a sensor's tick among them, may take: 60 and 180 unless told otherwise. The tick of a
# machine at load 30 takes longer, and what is cut off is asked again from the beginning.
_SLOW_MACHINE = {"DAGSTER_GRPC_TIMEOUT_SECONDS": "300", "DAGSTER_REPOSITORY_GRPC_TIMEOUT_SECONDS": "600"}
CODE, WEBSERVER, DAEMON = "dagster-code", "dagster-webserver", "dagster-daemon"
_ASKED = 3
# The server below ends when its proxy is gone for so long; the default of 30 s is little on a machine that is busy.
_HEARTBEAT_SECONDS = "120"


class _DagsterProcess(Component):
    """What the three processes share: the instance, and an environment that knows the whole stack."""

    probe_interval = 15

    @property
    def dagster_home(self) -> Path:
        return self.site.home.root / "dagster"

    @property
    def _own_postgres(self) -> bool:
        return "CDC_POSTGRES_HOST" not in self.site.external

    @property
    def needs(self) -> tuple[str, ...]:
        return (postgres_server.NAME,) if self._own_postgres else ()

    def prepare(self) -> None:
        private_folder(self.run)
        private_folder(self.dagster_home)
        write_private(self.dagster_home / "dagster.yaml", yaml.safe_dump(self._instance(), sort_keys=False))
        write_private(self.dagster_home / "workspace.yaml", yaml.safe_dump(self._workspace(), sort_keys=False))

    def _workspace(self) -> dict[str, Any]:
        # It answers whoever reaches it with what its environment holds: no port, but a socket in a folder that is closed.
        server = {"socket": str(socket_of(self.site.home, CODE)), "location_name": "cdc_assets"}
        return {"load_from": [{"grpc_server": server}]}

    def _instance(self) -> dict[str, Any]:
        days = {"skipped": 1, "failure": 14, "success": 14}
        return {
            **(self._storage() if self._own_postgres else {}),
            "telemetry": {"enabled": False},
            "nux": {"enabled": False},  # no invitation dialog in front of the lineage
            "run_launcher": {"module": "cdc_assets.stack.dagster_instance", "class": "WatchedRunLauncher"},
            # Runs start at once: a queue would add its polling to every batch's latency, and tables lock each other out anyway.
            "run_coordinator": {"module": "dagster.core.run_coordinator", "class": "DefaultRunCoordinator"},
            "run_monitoring": {"enabled": True, "start_timeout_seconds": 900, "poll_interval_seconds": 30},
            "sensors": {"use_threads": True, "num_workers": 4},
            "schedules": {"use_threads": True, "num_workers": 2},
            "retention": {"schedule": {"purge_after_days": days}, "sensor": {"purge_after_days": days}},
            "local_artifact_storage": {
                "module": "dagster.core.storage.root",
                "class": "LocalArtifactStorage",
                "config": {"base_dir": str(self.dagster_home)},
            },
            "compute_logs": {
                "module": "dagster.core.storage.local_compute_log_manager",
                "class": "LocalComputeLogManager",
                "config": {"base_dir": str(self.dagster_home / "compute_logs")},
            },
        }

    def _storage(self) -> dict[str, Any]:
        config = {"postgres_db": self._database()}
        kind = {"module": "cdc_assets.stack.dagster_instance", "class": "PooledPostgresStorage", "config": config}
        return {"storage": {"custom": kind}}

    def _database(self) -> dict[str, Any]:
        return {
            "hostname": HOST,
            "port": self.site.ports[postgres_server.NAME],
            "db_name": "dagster",
            "username": "dagster",
            "password": {"env": "CDC_DAGSTER_DB_PASSWORD"},
            # SQLAlchemy 2.1 takes psycopg 3 by default; dagster-postgres counts on psycopg2, whose `with connection`
            # does not close it: the webserver's pool was full of closed connections.
            "scheme": "postgresql+psycopg2",
        }

    def environment(self) -> dict[str, str]:
        # Users' own variables belong here: registry files may refer to any of them.
        roots = [str(Path(__file__).parents[3]), *([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [])]
        return {
            **os.environ,
            # Over what the shell has: AWS keys of the user's own would not open the embedded endpoint.
            **read_json(self.site.home.stack).get("environment", {}),
            **self._spark_token(),
            "CDC_HOME": str(self.site.home.root),
            "DAGSTER_HOME": str(self.dagster_home),
            "CDC_DAGSTER_DB_PASSWORD": self.site.home.private("dagster_db_password"),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            **_SLOW_MACHINE,
            "PYTHONPATH": os.pathsep.join(roots),
            "PYTHONUNBUFFERED": "1",
            **allocator_variables(),
        }

    @property
    def token(self) -> str:
        """What the webserver asks for (guarded_webserver)."""
        return self.site.home.private(TOKEN)

    def _spark_token(self) -> dict[str, str]:
        """For users' own assets, which may open sessions by PySpark's own client."""
        own = "CDC_SPARK_REMOTE" not in self.site.external
        return {spark_connect_server.TOKEN_VARIABLE: self.site.home.private(spark_connect_server.TOKEN)} if own else {}

    @property
    def addresses(self) -> Mapping[str, str]:
        return {}


class DagsterCode(_DagsterProcess):
    """The code location: a proxy, and below it the server that has loaded the definitions, whose child processes are the runs.

    A reload starts a new server and lets the old one end its runs; `dagster api grpc` alone cannot reload (ADR 0050).
    """

    name = CODE
    stop_timeout = 30
    ports: tuple[str, ...] = ()

    @property
    @override
    def address(self) -> str:
        return f"unix:{socket_of(self.site.home, CODE)}"

    @override
    def command(self) -> list[str]:
        socket = str(socket_of(self.site.home, CODE))
        options = ["--module-name", MODULE, "--socket", socket, "--location-name", "cdc_assets"]
        return [sys.executable, "-m", "cdc_assets.stack.warm_runs", "code-server", "start", *options]

    @override
    def environment(self) -> dict[str, str]:
        variables = {**super().environment(), KEPT: str(self.site.home.loaded)}
        # Read from stack.json at each load instead: `./cdc up` and `./cdc reload` may name others while it runs.
        for name in REMEMBERED:
            variables.pop(name, None)
        return {**variables, "DAGSTER_GRPC_PROXY_HEARTBEAT_TTL_SECONDS": _HEARTBEAT_SECONDS}

    @cached_property
    def _channel(self) -> grpc.Channel:
        return local_channel(self.address)

    @override
    def probe(self) -> None:
        """The proxy passes this question on, so that the server below it must answer: whether the proxy serves says nothing."""
        import grpc

        call = self._channel.unary_unary("/api.DagsterApi/GetServerId")
        for _ in range(_ASKED):
            try:
                call(b"", timeout=self.answer_within)
                return
            except grpc.RpcError as error:
                refused = error
            if refused.code() is not grpc.StatusCode.UNKNOWN:
                raise NotReadyError(f"{self.address}: {refused.code().name} {refused.details()}") from refused
            # In the moment of a reload the server that is asked may be the one that goes.
            time.sleep(1)
        raise StackError(self.name, f"has no definitions: {refused.details()}", f"./cdc logs {self.name}", log=self.log)


class _AsksCode(_DagsterProcess):
    """What loads the definitions from the code location."""

    @property
    @override
    def needs(self) -> tuple[str, ...]:
        return (*super().needs, CODE)


class DagsterWebserver(_AsksCode):
    """The web interface and GraphQL, at an address of its own (`loopback.own_address`): its cookie is worth the stack."""

    name = WEBSERVER

    @property
    @override
    def address(self) -> str:
        return self.site.address(WEBSERVER)

    @override
    def command(self) -> list[str]:
        workspace = str(self.dagster_home / "workspace.yaml")
        host, _, port = self.address.partition(":")
        options = ["--workspace", workspace, "--host", host, "--port", port, "--log-level", "warning"]
        return [sys.executable, "-m", "cdc_assets.stack.guarded_webserver", *options]

    @override
    def environment(self) -> dict[str, str]:
        return {**super().environment(), TOKEN_VARIABLE: self.token}

    @override
    def probe(self) -> None:
        _answer("GET", f"{self.url}/server_info", self.token, self.answer_within)

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        return {"CDC_DAGSTER_URL": self.url, "DAGSTER_HOME": str(self.dagster_home)}

    @property
    @override
    def keys(self) -> Mapping[str, Path]:
        return {self.url: self.site.home.private_file(TOKEN)}


class DagsterDaemon(_AsksCode):
    """Sensors, schedules and run monitoring. It has no port: its heartbeat is in Dagster's storage."""

    name = DAEMON
    ports: tuple[str, ...] = ()
    address = "-"
    asked_through: tuple[str, ...] = (WEBSERVER,)

    @override
    def command(self) -> list[str]:
        return [sys.executable, "-m", "dagster._daemon", "run", "--workspace", str(self.dagster_home / "workspace.yaml")]

    @override
    def probe(self) -> None:
        query = "{ instance { daemonHealth { allDaemonStatuses { daemonType required healthy } } } }"
        url = f"http://{self.site.address(WEBSERVER)}/graphql"
        answer = _answer("POST", url, self.token, self.answer_within, query=query)
        if not answer.get("data"):
            raise NotReadyError(f"the webserver cannot read the heartbeats: {answer['errors'][0]['message']}")
        statuses = answer["data"]["instance"]["daemonHealth"]["allDaemonStatuses"]
        silent = [status["daemonType"] for status in statuses if status["required"] and not status["healthy"]]
        if silent:
            raise NotReadyError(f"no recent heartbeat of {', '.join(silent)}")


def _answer(method: str, url: str, token: str, timeout: float, **body: str) -> Any:
    import httpx

    try:
        login = {"Authorization": f"Bearer {token}"}
        response = httpx.request(method, url, json=body or None, headers=login, timeout=timeout, trust_env=False)
        response.raise_for_status()
        return response.json()
    except httpx.HTTPError as error:
        raise NotReadyError(f"{url}: {error}") from error
