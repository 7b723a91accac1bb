"""Servers of the stack on 127.0.0.1: their ports, the pages that they refuse, and a channel that probes them.

A port is given, remembered from the last start, or chosen free; a taken one is named with its owner. Chosen ports lie below the
kernel's range for outgoing connections: one from that range could belong to any client by the next `up`. They are reserved
until the process that has chosen them ends: a server takes seconds to listen, and two stacks that start side by side would
otherwise choose the same. Refused unseen are another name of the host (DNS rebinding) and pages of elsewhere.
"""

from __future__ import annotations

import os
import random
import re
import socket
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_assets.stack.stack_errors import StackError

if TYPE_CHECKING:
    import grpc

HOST = "127.0.0.1"
_OWN = re.compile(r"127(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}")
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_reserved: list[socket.socket] = []


def port_variable(port: str) -> str:
    """The environment variable that sets a port: `core-kafka` is CDC_PORT_CORE_KAFKA."""
    return "CDC_PORT_" + port.upper().replace("-", "_")


def own_address(name: str, remembered: str | None, *, environment: Mapping[str, str] = os.environ) -> str:
    """An address of 127.0.0.0/8 for one server: a browser sends its cookies to no server at another address.

    It sends those of 127.0.0.1 to each port there (https://www.rfc-editor.org/rfc/rfc6265#section-8.5). The address given by a
    variable, the remembered one, or a drawn one; 127.0.0.1 where the system has no other, as macOS.

    Raises:
        StackError: when the variable holds no such address, or one that the system does not have.
    """
    variable_name = "CDC_HOST_" + name.upper().replace("-", "_")
    if address := environment.get(variable_name):
        if not _OWN.fullmatch(address) or not _has(address):
            reason = f"{variable_name}={address} is not an address of this machine alone (127.0.0.0/8)"
            raise StackError(name, reason, f"unset {variable_name}, or give 127.0.0.1; from elsewhere use ssh -L")
        return address
    chosen = remembered or ".".join(("127", *(str(random.SystemRandom().randint(1, 254)) for _ in range(3))))
    return chosen if _has(chosen) else HOST


def assign(
    names: Iterable[str],
    remembered: Mapping[str, int],
    *,
    hosts: Mapping[str, str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, int]:
    """A port for each name, on 127.0.0.1 or where `hosts` has another address for it.

    Raises:
        StackError: when a given or remembered port is in use, naming the process; when a variable holds no port number.
    """
    ports: dict[str, int] = {}
    for name in names:
        port = _port_from_environment(name, environment) or remembered.get(name)
        if port is None:
            port = _free(set(ports.values()) | set(remembered.values()))
        elif not is_free(port, (hosts or {}).get(name, HOST)):
            next_command = f"stop that process, or set {port_variable(name)} to another port, then ./cdc up"
            raise StackError(name, f"port {port} is taken by {port_owner(port)}", next_command)
        ports[name] = port
    return ports


def is_free(port: int, host: str = HOST) -> bool:
    """Whether we could listen there now."""
    with socket.socket() as probe:
        # As servers do it: connections in TIME_WAIT of a stack stopped a moment ago are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def _has(address: str) -> bool:
    """Whether the system lets us listen at that address."""
    return is_free(0, address)


def reserve(port: int) -> bool:
    """Keep a port from whoever else reserves one, as long as this process runs; whether nobody else has it.

    Bound and not listening: a server may listen there all the same, since both it and our socket say SO_REUSEADDR. Only the
    bind itself is made without it, which fails on a port that anybody has bound.
    """
    probe = socket.socket()
    try:
        probe.bind((HOST, port))
    except OSError:
        probe.close()
        return False
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _reserved.append(probe)
    return True


def port_owner(port: int) -> str:
    """The process that listens on a port: `java (pid 123, /usr/bin/java -jar x)`."""
    import psutil

    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN and connection.pid:
                process = psutil.Process(connection.pid)
                return f"{process.name()} (pid {process.pid}: {' '.join(process.cmdline())[:120]})"
    except (psutil.Error, PermissionError) as error:
        return f"a process that cannot be seen ({type(error).__name__})"
    return "a process of another user"


def _port_from_environment(name: str, environment: Mapping[str, str]) -> int | None:
    value = environment.get(port_variable(name))
    if not value:
        return None
    if not value.isdecimal() or not 0 < int(value) < 65536:
        raise StackError(name, f"{port_variable(name)}={value} is not a port", f"unset {port_variable(name)}, or give 1 to 65535")
    return int(value)


def _free(taken: set[int]) -> int:
    try:
        highest = int(_RANGE.read_text().split()[0]) - 1
    except (OSError, ValueError):
        highest = 32767
    lowest = 20000 if highest > 21000 else 2000
    chooser = random.SystemRandom()
    for _ in range(2000):
        port = chooser.randint(lowest, highest)
        if port not in taken and reserve(port):
            return port
    raise StackError("ports", f"no free port found between {lowest} and {highest} on {HOST}", "./cdc status")


# With any port: of a tunnel by ssh it is another one. The whole 127.0.0.0/8 is this machine.
_HERE = re.compile(r"(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d{1,5})?")
Refused = tuple[HTTPStatus, str]


def foreign(headers: Mapping[str, str]) -> Refused | None:
    """The name in the address must be this machine's own, and the page that asks must come from that address."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if not _HERE.fullmatch(host):
        return HTTPStatus.FORBIDDEN, "This server answers by the name 127.0.0.1 or localhost alone.\n"
    if origin not in (None, f"http://{host}", f"https://{host}"):
        return HTTPStatus.FORBIDDEN, "This server does nothing for a page of another origin.\n"
    return None


def local_channel(address: str) -> grpc.Channel:
    """To `host:port` or `unix:/path`, past any proxy; it knocks again within a second, where gRPC waits up to 120."""
    import grpc

    options = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 300),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    return grpc.insecure_channel(address, options=options)
