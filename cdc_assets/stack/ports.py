"""Ports of the stack on 127.0.0.1: given, remembered from the last start, or chosen free; a taken one is named with its owner.

Chosen ports lie below the kernel's range for outgoing connections: one from that range could belong to any client
by the next `up`. They are reserved until the process that has chosen them ends: a server takes seconds to listen, and two
stacks that start side by side would otherwise now and then choose the same.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from cdc_assets.stack.errors import PortTakenError, StackError

HOST = "127.0.0.1"
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_reserved: list[socket.socket] = []


def variable(port: str) -> str:
    """The environment variable that sets a port: `core-kafka` is CDC_PORT_CORE_KAFKA."""
    return "CDC_PORT_" + port.upper().replace("-", "_")


def assign(names: Iterable[str], remembered: Mapping[str, int], *, environment: Mapping[str, str] = os.environ) -> dict[str, int]:
    """A port for each name.

    Raises:
        PortTakenError: when a given or remembered port is in use, naming the process.
        StackError: when a variable holds no port number.
    """
    ports: dict[str, int] = {}
    for name in names:
        port = _port_from_environment(name, environment) or remembered.get(name)
        if port is None:
            port = _free(set(ports.values()) | set(remembered.values()))
        elif not is_free(port):
            next_command = f"stop that process, or set {variable(name)} to another port, then ./cdc up"
            raise PortTakenError(name, f"port {port} is taken by {owner(port)}", next_command)
        ports[name] = port
    return ports


def is_free(port: int) -> bool:
    """Whether we could listen there now."""
    with socket.socket() as probe:
        # As servers do it: connections in TIME_WAIT of a stack stopped a moment ago are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


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
