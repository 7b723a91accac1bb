"""Attacks on the doors of the running stack: what a process of another user, or a web page in the browser, may try."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import psutil
import pytest
from typing_extensions import override

from cdc_assets.stack.component_state import read_state
from cdc_assets.stack.home import Home, read_json
from cdc_assets_tests.support.modes import open_to_others
from cdc_assets_tests.support.servers.endpoints import Endpoint
from cdc_assets_tests.support.stack_fixture import RunningStack
from cdc_assets_tests.support.stack_kafka import kafka_settings, login_of

pytestmark = pytest.mark.stack
ROOT = Path(__file__).parents[2]
EVIL = "http://evil.example"
MUTATION = "mutation { setNuxSeen }"
STRANGER = """
import sys
from pyspark.sql import SparkSession
print(SparkSession.builder.remote(sys.argv[1]).getOrCreate().read.text("file://" + sys.argv[2]).collect())
"""


def stranger_reads(remote: str, file: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """PySpark's own client in a process that has nothing of ours but an address."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    command = [sys.executable, "-c", STRANGER, remote, str(file)]
    return subprocess.run(command, env=kept | more, capture_output=True, text=True, timeout=240, check=False)


def test_spark_reads_files_for_nobody_who_lacks_the_token(stack: RunningStack) -> None:
    remote, file = stack.environment["CDC_SPARK_REMOTE"], stack.home.root / "private" / "postgres_password"
    for address in (remote, f"{remote}/;token=wrong"):
        refused = stranger_reads(address, file)
        assert file.read_text() not in refused.stdout
        assert refused.returncode != 0
        assert "UNAUTHENTICATED" in refused.stderr or "token" in refused.stderr
    environment = {**os.environ, "CDC_HOME": str(stack.home.root)}
    ours = [sys.executable, "-m", "cdc_assets.cli", "env"]
    exports = subprocess.run(ours, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert stack.home.private("spark_token") not in exports
    shown = ["sh", "-euc", exports + '\nprintf %s "$SPARK_CONNECT_AUTHENTICATE_TOKEN"']
    token = subprocess.run(shown, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True).stdout
    allowed = stranger_reads(remote, file, SPARK_CONNECT_AUTHENTICATE_TOKEN=token)
    assert file.read_text() in allowed.stdout, allowed.stderr


def test_no_secret_is_on_a_command_line_in_a_log_or_in_dagsters_storage(stack: RunningStack) -> None:
    import psycopg

    secrets = {file.name: file.read_text() for folder in ("secrets", "private") for file in (stack.home.root / folder).iterdir()}
    assert {"spark_token", "dagster_token", "connect_password", "kafka_cdc_password", "kafka_connect_password"} <= set(secrets)
    places = {f"command of {p.pid}": " ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])}
    logs = [file for file in (stack.home.root / "logs").rglob("*") if file.is_file()]
    places |= {file.name: file.read_text(errors="replace") for file in (*logs, stack.home.state)}
    at = {"host": stack.environment["CDC_POSTGRES_HOST"], "port": stack.environment["CDC_POSTGRES_PORT"]}
    login = {**at, "user": "dagster", "dbname": "dagster", "password": secrets["dagster_db_password"]}
    with psycopg.connect(**login) as database:  # type: ignore[arg-type]
        stored = database.execute("SELECT event FROM event_logs UNION ALL SELECT run_body FROM runs").fetchall()
    places["Dagster's storage"] = "".join(text for (text,) in stored)
    found = [(name, place) for name, secret in secrets.items() for place, text in places.items() if secret in text]
    assert found == []


def test_connect_hands_no_secret_to_who_merely_reaches_its_port(stack: RunningStack) -> None:
    secret = stack.home.secret("world_db_password")
    mirror = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
    config = {"connector.class": mirror, "name": "x", "target.cluster.alias": "b"}
    asked = {**config, "source.cluster.alias": f"${{dir:{stack.home.secrets}:world_db_password}}"}
    for cluster in ("CDC_CORE_CONNECT", "CDC_LAKE_CONNECT"):
        url = stack.environment[cluster]
        answer = httpx.put(f"{url}/connector-plugins/MirrorHeartbeatConnector/config/validate", json=asked, trust_env=False)
        assert secret not in answer.text
        assert answer.status_code == 401
        assert httpx.get(f"{url}/connectors", auth=("cdc", "wrong"), trust_env=False).status_code == 401


QUIET = {"log_level": 0, "socket.timeout.ms": 10_000, "message.timeout.ms": 10_000, "error_cb": lambda _: None}


def refusal_of(call: Callable[..., object], *arguments: object, **more: object) -> str:
    """The name of Kafka's error; empty where the call is answered."""
    from confluent_kafka import KafkaException

    try:
        call(*arguments, **more)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def write_record(settings: Mapping[str, Any], topic: str) -> None:
    from confluent_kafka import KafkaException, Producer

    told: list[Any] = []
    producer = Producer(dict(settings))
    producer.produce(topic, key=b"connector-evil", value=b"{}", on_delivery=lambda error, _: told.append(error))
    producer.flush(30)
    if error := told[0]:
        raise KafkaException(error)


def read_record(settings: Mapping[str, Any], topic: str) -> bytes:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({**settings, "group.id": "stranger"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        found = consumer.poll(30)
        assert found is not None, topic
        if found.error():
            raise KafkaException(found.error())
        return bytes(found.value() or b"")
    finally:
        consumer.close()


def environment_of_a_person(home: Home) -> dict[str, str]:
    """What a shell has after `eval "$(cdc env)"`, and nothing else."""
    environment = {**os.environ, "CDC_HOME": str(home.root)}
    ours = [sys.executable, "-m", "cdc_assets.cli", "env"]
    exports = subprocess.run(ours, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown = subprocess.run(
        ["sh", "-euc", f"{exports}\nenv"], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    return dict(line.split("=", 1) for line in shown.stdout.splitlines() if line.startswith("CDC_"))


NOT_LET_IN = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_AUTHENTICATION")
STRANGERS = {
    "nobody": {},
    "a wrong password": {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "cdc",
        "sasl.password": "wrong",
    },
}


@pytest.mark.parametrize("cluster", ["core", "lake"])
def test_kafka_does_nothing_for_who_has_no_login(stack: RunningStack, cluster: str) -> None:
    from confluent_kafka.admin import AdminClient

    configs = f"_{cluster}-connect-configs"
    for who, login in STRANGERS.items():
        stranger = {**QUIET, "bootstrap.servers": stack.environment[f"CDC_{cluster.upper()}_BOOTSTRAP"], **login}
        assert refusal_of(AdminClient(stranger).list_topics, timeout=10) in NOT_LET_IN, who
        assert refusal_of(write_record, stranger, configs) == "_MSG_TIMED_OUT", who
    port = read_json(stack.home.config)["ports"][f"{cluster}-kafka-controller"]
    assert controller_answer(port) == b"", "a controller tells a stranger of its cluster"


def controller_answer(port: int) -> bytes:
    """What a controller says to DescribeCluster (KIP-919) of a client that has not logged in."""
    head = struct.pack(">hhih", 60, 1, 1, 1) + b"x" + b"\0"
    body = head + struct.pack(">bb", 0, 2) + b"\0"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        return connection.recv(4096)


@pytest.mark.parametrize("cluster", ["core", "lake"])
def test_a_persons_login_is_not_that_of_connects_worker(stack: RunningStack, cluster: str) -> None:
    """Who writes to Connect's config topic starts connectors, and is sent every secret that Connect may read."""
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, NewTopic
    from confluent_kafka.admin import ResourcePatternType as Pattern
    from confluent_kafka.admin import ResourceType as Kind

    environment = environment_of_a_person(stack.home)
    assert Path(login_of(environment, cluster).path).stat().st_mode & 0o777 == 0o600
    person = {**QUIET, **kafka_settings(environment, cluster)}
    admin, own = AdminClient(person), "of-a-person"
    admin.create_topics([NewTopic(own, 1)])[own].result(60)
    try:
        write_record(person, own)
        assert read_record(person, own) == b"{}"
    finally:
        admin.delete_topics([own])[own].result(60)
    for topic in (f"_{cluster}-connect-{what}" for what in ("configs", "offsets", "status")):
        assert topic in admin.list_topics(timeout=60).topics
        assert refusal_of(write_record, person, topic) == "TOPIC_AUTHORIZATION_FAILED", topic
        assert refusal_of(read_record, person, topic) == "TOPIC_AUTHORIZATION_FAILED", topic
        deleted = admin.delete_topics([topic])[topic]
        assert refusal_of(deleted.result, 60) == "TOPIC_AUTHORIZATION_FAILED", topic
    allowed = AclBinding(Kind.TOPIC, "*", Pattern.LITERAL, "User:cdc", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    (asked,) = admin.create_acls([allowed]).values()
    assert refusal_of(asked.result, 60) == "CLUSTER_AUTHORIZATION_FAILED"


def test_dagster_does_nothing_for_a_web_page(stack: RunningStack) -> None:
    url, key = stack.environment["CDC_DAGSTER_URL"], {"Authorization": f"Bearer {stack.home.private('dagster_token')}"}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as browser:
        read = browser.get("/graphql", params={"query": MUTATION}, headers=key)
        assert read.status_code == 405, read.text
        for odd in ({"Origin": EVIL}, {"Host": "evil.example"}, {"Origin": "null"}):
            sent = browser.post("/graphql", json={"query": MUTATION}, headers=key | odd)
            assert sent.status_code == 403, (odd, sent.text)
        assert browser.post("/graphql", params={"query": MUTATION}, headers=key | {"Origin": EVIL}).status_code == 403
        for kind in ("graphql-ws", "graphql-transport-ws"):
            assert asyncio.run(subscribed(url, EVIL, key, kind)) == 403
        assert asyncio.run(subscribed(url, url, key)) == 101
        own = browser.post("/graphql", json={"query": MUTATION}, headers=key | {"Origin": url})
        assert own.json()["data"] == {"setNuxSeen": True}


def test_dagster_shows_nothing_without_the_token_of_its_address(stack: RunningStack) -> None:
    url, token = stack.environment["CDC_DAGSTER_URL"], stack.home.private("dagster_token")
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as browser:
        for refused in (
            browser.get("/"),
            browser.get("/", params={"token": "wrong"}),
            browser.post("/graphql", json={"query": "{version}"}),
        ):
            assert refused.status_code == 401
            assert "./cdc up" in refused.text
        assert asyncio.run(subscribed(url, url, {})) == 401
        opened = browser.get("/runs", params={"token": token, "view": "all"})
        assert (opened.status_code, opened.headers["location"]) == (303, "/runs?view=all")
        assert {"HttpOnly", "SameSite=lax"} <= set(opened.headers["set-cookie"].replace("; ", ";").split(";"))
        assert browser.get("/runs").status_code == 200
        assert browser.post("/graphql", json={"query": "{version}"}, headers={"Origin": url}).json()["data"]["version"]


def test_the_cookie_of_dagsters_page_goes_to_no_other_server_of_this_machine(stack: RunningStack) -> None:
    """Cookies know no port: of a page at 127.0.0.1 each server of another user there would be sent it."""
    told: list[str | None] = []

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.append(self.headers.get("Cookie"))
            self.send_response(204)
            self.end_headers()

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    url, token = stack.environment["CDC_DAGSTER_URL"], stack.home.private("dagster_token")
    with HTTPServer(("127.0.0.1", 0), Stranger) as server, httpx.Client(trust_env=False, timeout=60) as browser:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            assert browser.get(url, params={"token": token}, follow_redirects=True).status_code == 200
            assert browser.cookies
            browser.get(f"http://127.0.0.1:{server.server_port}/x.png")
        finally:
            server.shutdown()
    assert told == [None]


def objects_of(endpoint: Endpoint) -> tuple[httpx.Client, str]:
    """Somebody who knows the port, and the path that the stack's own clients ask below."""
    address = endpoint.environment["STORAGE_EMULATOR_HOST"]
    path = urlsplit(address).path
    return httpx.Client(base_url=address.removesuffix(path) if path else address, trust_env=False, timeout=30), path


UPWARDS = ("../../../../victim.txt", "/../victim.txt", "a/../../../../victim.txt", "..", "%2e%2e/victim.txt")


@pytest.mark.parametrize("name", UPWARDS)
def test_gcs_writes_no_file_above_its_folder(gcs_endpoint: Endpoint, name: str) -> None:
    """Neither for a stranger nor for who knows the key, by each way to upload."""
    victim = gcs_endpoint.folder / "victim.txt"
    victim.write_text("original")
    client, key = objects_of(gcs_endpoint)
    before = set(gcs_endpoint.folder.parent.rglob("victim*"))
    with client:
        for path in ("", key):
            upload = f"{path}/upload/storage/v1/b/cdc-backup/o"
            client.post(upload, params={"uploadType": "media", "name": name}, content="overwritten")
            described = f'--x\r\nContent-Type: application/json\r\n\r\n{{"name": "{name}"}}\r\n'
            body = described + "--x\r\nContent-Type: text/plain\r\n\r\noverwritten\r\n--x--\r\n"
            kind = {"Content-Type": "multipart/related; boundary=x"}
            client.post(upload, params={"uploadType": "multipart"}, content=body, headers=kind)
            begun = client.post(upload, params={"uploadType": "resumable"}, json={"name": name})
            if "location" in begun.headers:
                client.put(begun.headers["location"], content="overwritten", headers={"Content-Range": "bytes 0-10/11"})
            copied = f"{path}/storage/v1/b/cdc-probe/o/conditional/rewriteTo/b/cdc-backup/o/{quote(name, safe='')}"
            client.post(copied, json={})
    assert victim.read_text() == "original"
    assert set(gcs_endpoint.folder.parent.rglob("victim*")) == before


def test_gcs_does_nothing_for_a_stranger_or_a_web_page(gcs_endpoint: Endpoint) -> None:
    client, key = objects_of(gcs_endpoint)
    asked = [("GET", "/storage/v1/b"), ("GET", "/storage/v1/b/cdc-probe/o"), ("GET", "/storage/v1/b/cdc-probe/o/conditional")]
    asked += (("DELETE", "/storage/v1/b/cdc-probe/o/conditional"), ("PUT", "/_internal/config"), ("OPTIONS", "/storage/v1/b"))
    with client:
        for method, path in asked:
            for stranger in ("", "/wrong", f"{key[:-1]}"):
                assert client.request(method, stranger + path).status_code == 401, (method, stranger, path)
            for odd in ({"Origin": EVIL}, {"Origin": "null"}, {"Host": "evil.example"}, {"Host": "localhost.evil.example"}):
                refused = client.request(method, key + path, headers=odd)
                assert refused.status_code == 403, (method, path, odd)
                assert not [name for name in refused.headers if name.startswith("access-control")]
        assert client.put(f"{key}/_internal/config", json={"externalUrl": EVIL}).status_code >= 400
        own = client.get(f"{key}/storage/v1/b/cdc-probe/o/conditional", params={"alt": "media"})
        assert (own.status_code, own.text) == (200, "x")


async def subscribed(url: str, origin: str, headers: dict[str, str], protocol: str = "graphql-ws") -> int:
    """The status that a WebSocket's opening is answered with, where the page that opens it comes from `origin`."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus
    from websockets.typing import Origin, Subprotocol

    at = url.replace("http", "ws", 1) + "/graphql"
    try:
        async with connect(
            at, origin=Origin(origin), additional_headers=headers, subprotocols=[Subprotocol(protocol)], proxy=None
        ) as socket:
            await socket.send(json.dumps({"type": "connection_init"}))
            await socket.recv()
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def test_nothing_that_the_stack_writes_is_readable_by_others(stack: RunningStack) -> None:
    from cdc_assets.clients.platform import Platform

    table = Path(stack.environment["CDC_LAKE"]) / "modes"
    with Platform().spark().session() as session:
        session.sql(f"CREATE TABLE delta.`{table}` USING delta AS SELECT id FROM range(3)")
        session.sql(f"DELETE FROM delta.`{table}` WHERE id = 1")
    assert list(table.glob("*.parquet"))
    state = read_state(stack.home)
    assert state
    assert open_to_others(stack.home.root, [state.supervisor]) == []


NOBODY = 65534
REQUESTS = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    b"GET /connectors HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"POST /graphql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    # PostgreSQL's startup as `postgres` to `postgres`, and Kafka's question for what it can do (ApiVersions).
    struct.pack("!ii", 41, 196608) + b"user\0postgres\0database\0postgres\0\0",
    struct.pack("!ihhih", 10, 18, 0, 1, 0),
    b"\0" * 64,
)


def as_other_account(probe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the function finds in a process of the account `nobody`: this one's, which gives root up. Nothing is executed anew,
    since that account may not reach this Python."""
    # What it will import: that account may read no file of this Python either.
    "localhost".encode("idna").decode("latin-1")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with os.fdopen(write, "w") as answer:
                json.dump(probe(), answer)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return dict(json.loads(told))


def answers_of(host: str, port: int) -> list[str]:
    """What a port says to each request of somebody who has no secret."""
    found = []
    for request in REQUESTS:
        try:
            with socket.create_connection((host, port), timeout=5) as connection:
                connection.settimeout(2)
                connection.sendall(request)
                found.append(connection.recv(1 << 16).decode("latin-1"))
        except OSError as error:
            found.append(type(error).__name__)
    return found


def why_closed(path: str) -> str:
    """The error by which a file or folder is not read; empty where it is."""
    try:
        list(Path(path).iterdir()) if Path(path).is_dir() else Path(path).read_bytes()
    except OSError as error:
        return type(error).__name__
    return ""


def probe_all(home: Home) -> tuple[dict[str, list[str]], dict[str, str]]:
    """By each port that a process of the stack listens at what it says to another account, and by path why that cannot read."""
    state = read_state(home)
    assert state is not None
    pids = {component.pid for component in state.components if component.pid}
    all_pids = {process.pid for pid in pids for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))}
    ports = {
        (connection.laddr.ip, connection.laddr.port)
        for connection in psutil.net_connections("inet")
        if connection.pid in all_pids and connection.status == psutil.CONN_LISTEN
    }
    assert len(ports) >= len(pids) - 3
    closed = [str(home.root), str(home.root / "private" / "spark_token"), *(f"/proc/{pid}/environ" for pid in sorted(pids))]

    def probe() -> dict[str, Any]:
        said = {f"{host}:{port}": answers_of(host, port) for host, port in sorted(ports)}
        return {"ports": said, "paths": {path: why_closed(path) for path in closed}}

    told = as_other_account(probe)
    return told["ports"], told["paths"]


@pytest.mark.all
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another account")
def test_another_account_of_the_machine_gets_nothing_by_any_port(stack: RunningStack) -> None:
    ports, paths = probe_all(stack.home)
    assert {path: why for path, why in paths.items() if why != "PermissionError"} == {}
    told = {place: [said.split("\r\n")[0] for said in answers if said.startswith("HTTP/1.")] for place, answers in ports.items()}
    let_in = {place: lines for place, lines in told.items() if any(line.split()[1][0] in "23" for line in lines)}
    assert let_in == {}
    secrets = [file.read_text().strip() for folder in ("secrets", "private") for file in (stack.home.root / folder).iterdir()]
    assert [place for place, answers in ports.items() if any(each and each in said for each in secrets for said in answers)] == []
