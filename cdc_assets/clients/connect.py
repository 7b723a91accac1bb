"""Kafka Connect's REST interface: declared config in, states and offsets out.

Connect answers 409 while it rebalances and 5xx while it starts; both are retried until a deadline, since every verb
here may be repeated. `GET /connectors/<name>/config` returns configs in clear text (KAFKA-5117): show them through
connector_states' masks only. A connector that carries nothing is told with the command that mends it.
REST: https://kafka.apache.org/documentation/#connect_rest (offsets and stop: KIP-875, initial state: KIP-980).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

from cdc_assets.clients.connector_states import ConnectorOverview, ConnectorStatus, Plugin, SourceOffset, mask_text
from cdc_assets.clients.dagster_answers import authorities
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.references import foreign_placeholders

_MESSAGE_LENGTH = 600


class ConnectRest:
    """JSON requests to one Connect cluster; every method of Connect's REST that we use may be repeated.

    `login`: `user:password`, where it asks for one.
    """

    def __init__(self, url: str, *, deadline: float, transport: httpx.BaseTransport | None = None, login: str = "") -> None:
        self.url = url.rstrip("/")
        self._deadline = deadline
        user, _, password = login.partition(":")
        try:
            self._http = httpx.Client(
                base_url=self.url,
                timeout=min(30.0, deadline),
                transport=transport,
                trust_env=False,
                verify=authorities(),
                auth=(user, password) if login else None,
            )
        except httpx.InvalidURL as error:
            raise ServiceError(f"{url!r} is no address of a Connect cluster: {error}") from None
        if self._http.base_url.scheme not in ("http", "https"):
            raise ServiceError(f"{url!r} is no address of a Connect cluster: it begins with neither http:// nor https://")

    def request(self, method: str, path: str, *, json: Any = None, missing_ok: bool = False) -> Any:
        """The answer's JSON; None when it is empty, or when it is a 404 and `missing_ok`.
        Raises ServiceError: with method, address and Connect's message, which quotes no secret of `json`."""
        retrying = Retrying(
            stop=stop_after_delay(self._deadline),
            wait=wait_exponential(multiplier=0.2, max=3.0),
            retry=retry_if_exception(lambda error: isinstance(error, ServiceError) and error.how == "silent"),
            reraise=True,
        )
        try:
            return retrying(self._once, method, path, json, missing_ok)
        except ServiceError as error:
            if error.how != "silent":
                raise
            trouble = f"{method} {self.url}{path}: {error} (gave up after {self._deadline:.0f} s)"
            raise ServiceError(trouble, how="silent") from error

    def _once(self, method: str, path: str, json: Any, missing_ok: bool) -> Any:
        try:
            response = self._http.request(method, path, json=json)
        except httpx.TransportError as error:
            raise ServiceError(f"no answer: {error or type(error).__name__}", how="silent") from error
        if response.status_code == 404 and not _of_connect(response):
            raise ServiceError("HTTP 404 of the web server: Connect is starting", how="silent")
        if response.status_code == 404 and missing_ok:
            return None
        if not response.is_error:
            return _json(method, response)
        if response.status_code == 401:
            where = "CDC_CORE_CONNECT_LOGIN_FILE or CDC_LAKE_CONNECT_LOGIN_FILE names a file with user:password"
            raise ServiceError(f"{method} {self.url}{path}: HTTP 401: this Connect asks for another login; {where}")
        message = _message(response, json)
        refusal = f"{method} {self.url}{path}: HTTP {response.status_code}: {message}"
        # Connect answers 409 while it rebalances as well: that a name is taken stands in the message alone. No retry mends it.
        if "already exists" in message:
            raise ServiceError(refusal, how="exists")
        # Nor does one mend a class that the worker does not have (500).
        if response.status_code in (409, *range(500, 600)) and "BadRequestException" not in message:
            raise ServiceError(f"HTTP {response.status_code}: {message}", how="silent")
        raise ServiceError(refusal)


def _json(method: str, response: httpx.Response) -> Any:
    """What a success says.
    Raises ServiceError: nothing that Connect says: something else answers there, such as a proxy that asks for a login."""
    try:
        if response.is_success:
            return response.json() if response.content else None
    except ValueError:
        pass
    leads = f" to {response.headers['location']}" if "location" in response.headers else ""
    kind = response.headers.get("content-type", "no content type")
    raise ServiceError(f"{method} {response.url}: HTTP {response.status_code}{leads} ({kind}): that is not Kafka Connect")


def _of_connect(response: httpx.Response) -> bool:
    """Connect says in JSON what it does not find; its web server's 404, without a body or as a page, comes before Connect is up.

    A worker of Kafka 4 that starts gives the page for 4 to 7 s.
    """
    try:
        return "error_code" in response.json()
    except (ValueError, TypeError):
        return False


def _message(response: httpx.Response, sent: Any) -> str:
    """Connect's message in one line; it may quote what was sent, so secrets of that are taken out."""
    try:
        text = str(response.json().get("message", ""))
    except (ValueError, AttributeError):
        text = response.text
    config = sent.get("config", sent) if isinstance(sent, dict) else {}
    values = {str(key): value for key, value in config.items() if isinstance(value, str)} if isinstance(config, dict) else {}
    line = " ".join(raw_line.strip() for raw_line in text.splitlines() if raw_line.strip())
    return mask_text(line, values)[:_MESSAGE_LENGTH] or "no message"


_POLL_SECONDS = 0.25
_TAKEN_UP_SECONDS = 5.0
# MirrorMaker looks for new topics every 5 s as we declare it.
_IDLE_SECONDS = 10.0
# Asked for where the answer says nothing: what a worker says of any config it says as a member of its group.
_NOBODY = "cdc_assets.nobody"


class ConnectClient:
    """The connectors of one Connect cluster."""

    def __init__(
        self, url: str, *, deadline: float = 60.0, transport: httpx.BaseTransport | None = None, login: str = ""
    ) -> None:
        self.url = url.rstrip("/")
        self._transport, self._login = transport, login
        self._rest = ConnectRest(url, deadline=deadline, transport=transport, login=login)
        self._password_keys: dict[str, frozenset[str]] = {}

    def within(self, seconds: float) -> ConnectClient:
        """The same cluster for somebody who cannot wait longer for one answer."""
        return ConnectClient(self.url, deadline=seconds, transport=self._transport, login=self._login)

    def await_member(self) -> None:
        """Until the worker that answers is in its group and has read the configs.

        Before that it lists no connectors (HTTP 200) and knows no status (404), as if there were none. Kafka 4.3.1, started
        after a kill -9, was like that for 20 s; what it is asked of a config waits in the herder's queue.
        """
        self._rest.request("GET", f"{_path(_NOBODY)}/config", missing_ok=True)

    def connectors(self) -> list[str]:
        """Names of all connectors."""
        names = self._rest.request("GET", "/connectors")
        if not names:
            self.await_member()
            names = self._rest.request("GET", "/connectors")
        return sorted(names)

    def kafka_cluster_id(self) -> str:
        """The id of the Kafka cluster that it keeps its own topics in."""
        return str(self._rest.request("GET", "/")["kafka_cluster_id"])

    def overview(self) -> dict[str, ConnectorOverview]:
        """Every connector of the cluster with config and states, by name; no state where no worker has said anything of it."""
        listed, until = set(self.connectors()), time.monotonic() + _TAKEN_UP_SECONDS
        # Connect leaves out, without a word, what has no status yet.
        while listed - (answer := self._rest.request("GET", "/connectors?expand=info&expand=status")).keys():
            if time.monotonic() > until:
                break
            time.sleep(_POLL_SECONDS)
        overviews = {
            name: ConnectorOverview(
                name,
                about["info"].get("type") or "",
                about["info"]["config"],
                self._status_of(name, about["status"], about["info"]["config"]) if about.get("status") else None,
            )
            for name, about in answer.items()
        }
        for name in listed - answer.keys():
            if (config := self.config(name)) is not None:
                overviews[name] = ConnectorOverview(name, "", config, None)
        return dict(sorted(overviews.items()))

    def config(self, name: str) -> dict[str, str] | None:
        """The connector's config as Connect holds it, or None when there is no such connector."""
        return self._rest.request("GET", f"{_path(name)}/config", missing_ok=True)

    def validate(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """Connect's own findings, by config key; empty when the config is valid. They quote no secret value."""
        _refuse_placeholders(config)
        answer = self._rest.request("PUT", f"{_plugin_path(config)}/config/validate", json=dict(config))
        secret = _password_keys(answer["configs"])
        return {
            item["value"]["name"]: [mask_text(error, config, secret) for error in item["value"]["errors"]]
            for item in answer["configs"]
            # Some plugins' answers have options without a value.
            if item.get("value") and item["value"]["errors"]
        }

    def password_keys(self, connector_class: str) -> frozenset[str]:
        """The keys whose ConfigDef type is PASSWORD; empty for a class that this cluster does not have."""
        if connector_class not in self._password_keys:
            types = self.definitions(connector_class)
            self._password_keys[connector_class] = frozenset(name for name, type_ in types.items() if type_ == "PASSWORD")
        return self._password_keys[connector_class]

    def definitions(self, connector_class: str) -> dict[str, str]:
        """The options that a plugin documents, with their types; empty where the cluster does not have it (KIP-769)."""
        return {item["name"]: item.get("type") or "" for item in self._options(connector_class)}

    def default_values(self, connector_class: str) -> dict[str, str | None]:
        """The options that a plugin documents, with what holds where a config leaves them out; None: nothing does."""
        return {item["name"]: item.get("default_value") for item in self._options(connector_class)}

    def _options(self, connector_class: str) -> list[dict[str, Any]]:
        path = f"{_plugin_path({'connector.class': connector_class})}/config"
        return list(self._rest.request("GET", path, missing_ok=True) or [])

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector, or replace its config.
        Raises ServiceError: also of a config in which a placeholder stands that is not ours; Connect is not asked then."""
        _refuse_placeholders(config)
        self._rest.request("PUT", f"{_path(name)}/config", json=dict(config))

    def create(self, name: str, config: Mapping[str, str], *, initial_state: str = "RUNNING") -> None:
        """Create the connector as RUNNING, PAUSED or STOPPED (so that offsets can be set first).
        Raises ServiceError: one of that name exists, with another config than this."""
        _refuse_placeholders(config)
        # KIP-980, Kafka 3.7: a connector that is made STOPPED has no task that would store offsets before ours are set.
        body = {"name": name, "config": dict(config), "initial_state": initial_state}
        try:
            self._rest.request("POST", "/connectors", json=body)
        except ServiceError as error:
            # A request that Connect has answered too late, and carried out, is repeated by us.
            if error.how != "exists" or self.config(name) != dict(config):
                raise

    def status(self, name: str) -> ConnectorStatus | None:
        """Connector and task states, or None when there is no such connector; UNASSIGNED while no worker has told any."""
        path = f"{_path(name)}/status"
        answer = self._rest.request("GET", path, missing_ok=True)
        if answer is None:
            if self.config(name) is None:  # which waits as `await_member` does
                return None
            answer = self._rest.request("GET", path, missing_ok=True) or {"connector": {"state": "UNASSIGNED"}, "tasks": []}
        status = ConnectorStatus.parse(name, answer)
        return self._status_of(name, answer, self.config(name)) if status.idle or status.obstacle else status

    def task_configs(self, name: str) -> list[dict[str, str]]:
        """What its tasks were given, which may be older than its config; empty when there is none."""
        answer = self._rest.request("GET", f"{_path(name)}/tasks", missing_ok=True)
        return [dict(task["config"]) for task in answer or ()]

    def restart_failed(self, name: str) -> None:
        """Restart only what has FAILED."""
        # KIP-745, Kafka 3.0: without `includeTasks` the connector alone is restarted, and a FAILED task stays as it is.
        self._rest.request("POST", f"{_path(name)}/restart?includeTasks=true&onlyFailed=true")

    def restart(self, name: str) -> None:
        """Restart the connector and all its tasks, and wait until the workers have begun to.

        Until then they tell the states of before, which would pass for those of after.
        """
        self._rest.request("POST", f"{_path(name)}/restart?includeTasks=true&onlyFailed=false")
        until = time.monotonic() + _TAKEN_UP_SECONDS
        while (status := self.status(name)) is not None and status.running and time.monotonic() < until:
            time.sleep(_POLL_SECONDS / 5)

    def pause(self, name: str) -> None:
        """Ask the tasks to stop polling; they keep what they hold (a replication slot stays busy)."""
        self._rest.request("PUT", f"{_path(name)}/pause")

    def resume(self, name: str) -> None:
        """Let a paused or stopped connector run."""
        self._rest.request("PUT", f"{_path(name)}/resume")

    def stop(self, name: str, *, deadline: float = 60.0) -> ConnectorStatus:
        """Shut all tasks down and wait until they are gone; config and offsets stay.
        Raises ServiceError: when a task is still there after `deadline` seconds, or there is no such connector."""
        # KIP-875, Kafka 3.5. The answer comes before the workers have read of it in the config topic.
        self._rest.request("PUT", f"{_path(name)}/stop")
        return self.await_stopped(name, deadline=deadline)

    def await_stopped(self, name: str, *, deadline: float = 60.0) -> ConnectorStatus:
        """Wait until it is STOPPED without a task; nothing is asked of it. Raises ServiceError: when the deadline passes."""
        return self._wait(name, lambda status: status.stopped, "stopped", deadline)

    def offsets(self, name: str, *, missing_ok: bool = True) -> list[dict[str, Any]]:
        """The connector's committed source offsets: `[{"partition": {...}, "offset": {...}}]`.
        Raises ServiceError: there is no such connector, and that is not `missing_ok`."""
        answer = self._rest.request("GET", f"{_path(name)}/offsets", missing_ok=missing_ok)
        return [] if answer is None else answer["offsets"]

    def patch_offsets(self, name: str, offsets: Sequence[SourceOffset]) -> str:
        """Set these offsets of a STOPPED connector (`offset=None` forgets one), leave all others; Connect's message."""
        # KIP-875, Kafka 3.6: Connect refuses this of a connector that is not STOPPED, and of a plugin that refuses the offsets.
        body = {"offsets": [offset.to_json() for offset in offsets]}
        return str(self._rest.request("PATCH", f"{_path(name)}/offsets", json=body)["message"])

    def reset_offsets(self, name: str) -> str:
        """Forget all offsets of a STOPPED connector; Connect's message."""
        return str(self._rest.request("DELETE", f"{_path(name)}/offsets")["message"])

    def topics(self, name: str) -> list[str]:
        """The topics that the connector has used since it was made, or since they were reset (KIP-558)."""
        answer = self._rest.request("GET", f"{_path(name)}/topics", missing_ok=True)
        return [] if answer is None else sorted(answer[name]["topics"])

    def plugins(self) -> list[Plugin]:
        """Every class that the worker can run."""
        answer = self._rest.request("GET", "/connector-plugins?connectorsOnly=false")
        return [Plugin(item["class"], item.get("version") or "", item["type"]) for item in answer]

    def delete(self, name: str, *, deadline: float = 60.0) -> None:
        """Remove the connector and wait until its status is gone too; its offsets stay in Connect's offsets topic."""
        self._rest.request("DELETE", _path(name), missing_ok=True)
        until = time.monotonic() + deadline
        while self.status(name) is not None:
            if time.monotonic() > until:
                raise ServiceError(f"connector {name} at {self.url} is deleted, but still has a status after {deadline:.0f} s")
            time.sleep(_POLL_SECONDS)

    def wait_running(
        self, name: str, *, deadline: float = 120.0, hopeless: Callable[[], bool] = lambda: False, mend: bool = True
    ) -> ConnectorStatus:
        """Wait until the connector and every task run; what failed is restarted once, or where nobody is to `mend` it, told.

        `hopeless` is asked of a connector that has run without a task for a while: whether none can come, which ends the wait.

        Raises ServiceError: at once when a task is FAILED after one restart of what failed; when the deadline passes.
        """
        restarted_at: float | None = None if mend else -math.inf
        began = time.monotonic()

        def runs(status: ConnectorStatus) -> bool:
            nonlocal restarted_at
            # What failed before may be told for a moment after the restart: Connect's states come by a topic of their own.
            if status.failed and restarted_at is None:
                self.restart_failed(name)
                restarted_at = time.monotonic()
            elif status.failed and restarted_at is not None and time.monotonic() - restarted_at > 2.0:
                reason = "; ".join(status.trace) or "no trace given"
                raise ServiceError(f"connector {name} at {self.url}: {status.state}, tasks {status.tasks}: {reason}")
            idle = status.idle and time.monotonic() - began > _IDLE_SECONDS
            return status.running or (idle and hopeless())

        return self._wait(name, runs, "running", deadline)

    def _status_of(self, name: str, answer: Mapping[str, Any], config: Mapping[str, str] | None) -> ConnectorStatus:
        """With the place that it has stored, where it stands before something in a binlog."""
        kind = (config or {}).get("connector.class", "")
        status = ConnectorStatus.parse(name, answer, kind)
        if status.obstacle is None:
            return status
        offsets = [entry.get("offset") or {} for entry in self.offsets(name)]
        places = [f"{offset['file']}:{offset['pos']}" for offset in offsets if offset.get("file")]
        return ConnectorStatus.parse(name, answer, kind, ", ".join(places))

    def _wait(self, name: str, reached: Callable[[ConnectorStatus], bool], what: str, deadline: float) -> ConnectorStatus:
        until = time.monotonic() + deadline
        while True:
            status = self.status(name)
            if status is not None and reached(status):
                return status
            if time.monotonic() > until:
                seen = "; ".join([f"{status.state}, tasks {status.tasks}", *status.trace]) if status else "no status"
                raise ServiceError(f"connector {name} at {self.url} is not {what} after {deadline:.0f} s: {seen}")
            time.sleep(_POLL_SECONDS)


def _refuse_placeholders(config: Mapping[str, str]) -> None:
    """What Connect would resolve: a name of the source's that looks like it would be sent to its database, and logged.
    Raises ServiceError: naming each setting, and what stands in it."""
    if foreign := foreign_placeholders(config):
        texts = "; ".join(f"{key} has {text}" for key, text in foreign.items())
        raise ServiceError(
            f"connector {config.get('name', '?')}: {texts}: Connect would put a secret, a variable or a file in its place. "
            "Rename what is called so in the source, or leave it out of the registry; then ./cdc apply"
        )


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _plugin_path(config: Mapping[str, str]) -> str:
    plugin = config["connector.class"].rsplit(".", 1)[-1]
    return f"/connector-plugins/{quote(plugin, safe='')}"


def _password_keys(configs: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(item["definition"]["name"] for item in configs if item.get("definition", {}).get("type") == "PASSWORD")


def connector_trouble(connect: ConnectClient, name: str) -> str:
    """One sentence; empty where the connector and all of its tasks run. Raises ServiceError: the cluster does not answer."""
    status = connect.status(name)
    if status is None:
        return f"connector {name} does not exist at {connect.url}: ./cdc apply makes it"
    if status.running:
        return ""
    if status.state in ("PAUSED", "STOPPED"):
        return f"connector {name} is {status.state}: ./cdc resume {name}"
    if status.failed:
        mend = "" if status.meets_it_again else f"; ./cdc restart {name}"
        return f"connector {name} has failed: {'; '.join(status.trace) or 'it does not say why'}{mend}"
    return f"connector {name} is {status.state}, its tasks: {', '.join(status.tasks) or 'none yet'}"
