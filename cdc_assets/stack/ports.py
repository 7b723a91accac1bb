"""Ports of the stack on the loopback: given, remembered from the last start, or chosen free; a taken one is named with its owner.

Chosen ports lie below the kernel's range for outgoing connections: one from that range could belong to any client
by the next `up`. They are reserved until the process that has chosen them ends: a server takes seconds to listen, and two
stacks that start side by side would otherwise now and then choose the same.
"""

from __future__ import annotations

import os
import random
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from cdc_assets.stack.errors import PortTakenError, StackError

HOST = "127.0.0.1"
_OWN = re.compile(r"127(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}")
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_reserved: list[socket.socket] = []


def variable(port: str) -> str:
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
    if given := environment.get(variable_name):
        if not _OWN.fullmatch(given) or not _has(given):
            reason = f"{variable_name}={given} is not an address of this machine alone (127.0.0.0/8)"
            raise StackError(name, reason, f"unset {variable_name}, or give 127.0.0.1; from elsewhere use ssh -L")
        return given
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
        PortTakenError: when a given or remembered port is in use, naming the process.
        StackError: when a variable holds no port number.
    """
    ports: dict[str, int] = {}
    for name in names:
        port = _port_from_environment(name, environment) or remembered.get(name)
        if port is None:
            port = _free(set(ports.values()) | set(remembered.values()))
        elif not is_free(port, (hosts or {}).get(name, HOST)):
            next_command = f"stop that process, or set {variable(name)} to another port, then ./cdc up"
            raise PortTakenError(name, f"port {port} is taken by {owner(port)}", next_command)
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


def owner(port: int) -> str:
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
    value = environment.get(variable(name))
    if not value:
        return None
    if not value.isdecimal() or not 0 < int(value) < 65536:
        raise StackError(name, f"{variable(name)}={value} is not a port", f"unset {variable(name)}, or give 1 to 65535")
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
