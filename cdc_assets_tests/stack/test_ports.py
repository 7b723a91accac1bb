"""Ports: chosen outside the range of outgoing connections, remembered, and a taken one named with its owner."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.registry.durable_file import replace_json
from cdc_assets.stack.component_plan import choose, components, external_addresses, load
from cdc_assets.stack.home import Home
from cdc_assets.stack.loopback import assign, own_address, reserve
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.support.own_stack import named_gcs


def test_a_taken_port_is_named_with_its_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(
            StackError, match=rf"core-kafka: port {port} is taken by python\S* \(pid {os.getpid()}: .*pytest"
        ) as caught:
            assign(["core-kafka"], {}, environment={"CDC_PORT_CORE_KAFKA": str(port)})
        assert "CDC_PORT_CORE_KAFKA" in str(caught.value)
        with pytest.raises(StackError, match=rf"port {port} is taken by"):
            assign(["core-kafka"], {"core-kafka": port}, environment={})


def test_chosen_ports_are_below_the_range_of_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = assign([f"p{n}" for n in range(50)], {}, environment={})
    assert len(set(ports.values())) == 50
    assert all(port < lowest for port in ports.values())


def test_a_chosen_port_is_nobody_elses_until_a_server_listens_there() -> None:
    (port,) = assign(["p"], {}, environment={}).values()
    code = f"from cdc_assets.stack.loopback import reserve; print(reserve({port}))"
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (reserve(port), elsewhere.stdout) == (False, "False\n")
    with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == ("127.0.0.1", port)
        assert not reserve(port)


@pytest.mark.parametrize("value", ["0", "65536", "http", "-1"])
def test_no_port_is_an_error_with_the_variable(value: str) -> None:
    with pytest.raises(StackError, match=f"CDC_PORT_S3={value} is not a port"):
        assign(["s3"], {}, environment={"CDC_PORT_S3": value})


def test_dagsters_page_has_an_address_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    """Linux has the whole of 127.0.0.0/8; a browser sends a cookie of 127.0.0.1 to each port there."""
    homes = [Home(tmp_path / name).create() for name in ("one", "other")]
    first, other = (choose(home, environment={}) for home in homes)
    pages = {site.hosts["dagster-webserver"] for site in (first, other)}
    assert len(pages) == 2
    assert all(page.startswith("127.") and page != "127.0.0.1" for page in pages)
    assert choose(homes[0], environment={}).hosts == load(homes[0]).hosts == first.hosts
    (told,) = [c.addresses["CDC_DAGSTER_URL"] for c in components(first) if c.name == "dagster-webserver"]
    assert told == f"http://{first.hosts['dagster-webserver']}:{first.ports['dagster-webserver']}"
    assert first.address("core-kafka").startswith("127.0.0.1:")
    given = {"CDC_HOST_DAGSTER_WEBSERVER": "127.0.0.1"}
    assert choose(homes[0], environment=given).address("dagster-webserver").startswith("127.0.0.1:")


def test_a_system_with_one_loopback_address_has_dagsters_page_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS, whose lo0 has 127.0.0.1 alone."""

    class Narrow(socket.socket):
        def bind(self, address: Any, /) -> None:
            if address[0] != "127.0.0.1":
                raise OSError(errno.EADDRNOTAVAIL, "Can't assign requested address")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", Narrow)
    assert own_address("p", None, environment={}) == own_address("p", "127.9.9.9", environment={}) == "127.0.0.1"
    with pytest.raises(StackError, match=r"CDC_HOST_P=127\.9\.9\.9 is not an address of this machine alone"):
        own_address("p", None, environment={"CDC_HOST_P": "127.9.9.9"})


@pytest.mark.parametrize("value", ["0.0.0.0", "192.0.2.1", "localhost", "127.0.0.256", "127.1", "::1"])
def test_dagsters_page_is_for_this_machine_alone(value: str) -> None:
    with pytest.raises(StackError, match=r"(?s)is not an address of this machine alone .*from elsewhere use ssh -L"):
        own_address("dagster-webserver", None, environment={"CDC_HOST_DAGSTER_WEBSERVER": value})


def test_a_taken_port_is_named_where_the_page_would_listen() -> None:
    with socket.create_server(("127.9.9.9", 0)) as server:
        port = server.getsockname()[1]
        assert assign(["page"], {"page": port}, environment={}) == {"page": port}
        with pytest.raises(StackError, match=f"port {port} is taken by"):
            assign(["page"], {"page": port}, hosts={"page": "127.9.9.9"}, environment={})


def test_ports_and_brokers_are_remembered(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    first = choose(home, brokers=3, environment={})
    second = choose(home, environment={})
    assert (second.ports, second.brokers) == (first.ports, 3)
    with pytest.raises(StackError, match=r"was made with 3 brokers per cluster, not 1"):
        choose(home, brokers=1, environment={})
    with pytest.raises(StackError, match="1 or 3 brokers"):
        choose(Home(tmp_path / "other").create(), brokers=2, environment={})


def test_nothing_is_started_for_an_address_that_the_user_has_set(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    given = {
        "CDC_CORE_BOOTSTRAP": "kafka.example:9092",
        "CDC_SPARK_REMOTE": "sc://spark.example:15002",
        "AWS_ENDPOINT_URL_S3": "https://s3",
    }
    site = choose(home, environment=given)
    started = {component.name: component for component in components(site)}
    assert not {"core-kafka", "spark-connect", "s3"} & set(started)
    assert {"lake-kafka", "core-connect", "postgres"} <= set(started)
    assert started["core-connect"].needs == ()
    assert site.bootstrap("core") == "kafka.example:9092"


def test_the_endpoint_of_gcs_is_started_where_a_source_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(name: str) -> set[str]:
        return {component.name for component in components(choose(Home(tmp_path / name).create(), environment={}))}

    assert "gcs" not in started("examples")
    monkeypatch.setenv("CDC_SOURCES", named_gcs(tmp_path / "sources")["CDC_SOURCES"])
    assert "gcs" in started("named")


def test_the_folder_of_passwords_on_a_connect_of_the_users_is_remembered(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    given = {"CDC_CORE_CONNECT": "http://connect.example", "CDC_CONNECT_SECRETS": "/mnt/passwords"}
    assert choose(home, environment=given).external == given
    with pytest.raises(StackError, match="CDC_CONNECT_SECRETS is for a server of yours"):
        choose(Home(tmp_path / "other").create(), environment={"CDC_CONNECT_SECRETS": "/mnt/passwords"})


def test_our_own_addresses_in_the_shell_are_not_the_users(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    replace_json(home.stack, {"environment": {"CDC_CORE_BOOTSTRAP": "127.0.0.1:1"}})
    assert external_addresses(home, {"CDC_CORE_BOOTSTRAP": "127.0.0.1:1"}) == {}
    assert external_addresses(home, {"CDC_CORE_BOOTSTRAP": "other:1"}) == {"CDC_CORE_BOOTSTRAP": "other:1"}
    # What the user gave at the last start is in stack.json as well, and stays the user's.
    replace_json(home.config, {"external": {"CDC_CORE_BOOTSTRAP": "127.0.0.1:1"}})
    assert external_addresses(home, {"CDC_CORE_BOOTSTRAP": "127.0.0.1:1"}) == {"CDC_CORE_BOOTSTRAP": "127.0.0.1:1"}
