"""What a component is, what it is built from, and as whom it runs. Nothing here knows any particular one.

A site is the home folder, the ports, the number of brokers, the jars and the given addresses. A component that refuses root
runs as another user or in a user namespace; that is decided once per start, by trying each way through `child.py`.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar

from cdc_assets.stack.home import Home, read_json
from cdc_assets.stack.jars.locked_jars import cache_folder, read_lock
from cdc_assets.stack.kafka_logins import client_login
from cdc_assets.stack.loopback import HOST
from cdc_assets.stack.stack_errors import StackError

CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True)
class Identity:
    """Options for `child.py`, and the owner that the data folder must have (None: ourselves)."""

    options: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None


def as_child(command: list[str], identity: Identity | None = None, *, parent: int | None = None) -> list[str]:
    """The command line that runs `command` as a child which dies with its parent."""
    options = identity.options if identity else ()
    return [sys.executable, "-I", "-S", str(CHILD), str(parent or os.getpid()), *options, "--", *command]


@cache
def pick_identity(component: str, program: str = "/") -> Identity:
    """Ourselves when we are not root, else the first other way that works here and may run the program.
    Raises StackError: with what was tried."""
    if os.geteuid() != 0:
        return Identity()
    tried = []
    for identity in _candidates():
        result = subprocess.run(as_child(["test", "-x", program], identity), capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return identity
        tried.append(f"{' '.join(identity.options)}: {(result.stderr.strip().splitlines() or [f'may not run {program}'])[-1]}")
    reason = "it refuses to run as root, and this machine lets us become nobody else (" + "; ".join(tried) + ")"
    raise StackError(component, reason, "run ./cdc as an ordinary user, or clone it where others may enter, such as /opt")


def _candidates() -> list[Identity]:
    users = []
    for name in ("postgres", "nobody"):
        try:
            users.append(pwd.getpwnam(name))
        except KeyError:
            continue
    users += [user for user in pwd.getpwall() if user.pw_uid >= 1000 and user not in users]
    named = [Identity(("--uid", str(u.pw_uid), "--gid", str(u.pw_gid)), u.pw_uid, u.pw_gid) for u in users[:4] if u.pw_uid]
    return [*named, Identity(("--user-namespace",))]


@dataclass(frozen=True)
class Site:
    """One embedded stack. `external` holds the addresses that the user has set: nothing of ours is started for those.

    `plugins` are the jar sets that the core Connect worker loads as plugins; `buckets` by kind of store (`s3`, `gcs`)
    those that the endpoints hold. `logins`: brokers and Connect workers ask for one, as they do in every stack. `spark` is
    `local` (one JVM) or `standalone` (a master and workers of its own). `jmx`: JVMs serve figures of their own. `hosts`: where a
    port by name is not on 127.0.0.1.
    """

    home: Home
    ports: Mapping[str, int]
    brokers: int = 1
    external: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[str, ...] = ("debezium-postgres",)
    buckets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    logins: bool = False
    spark: str = "local"
    jmx: bool = False
    hosts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_standalone(self) -> bool:
        """Whether Spark's master and workers are parts of the stack."""
        return self.spark == "standalone"

    def address(self, port: str) -> str:
        """`127.0.0.1:port` of a named port, or at its own address."""
        return f"{self.hosts.get(port, HOST)}:{self.ports[port]}"

    def bootstrap(self, cluster: str) -> str:
        """Bootstrap servers of the cluster `core` or `lake`."""
        bootstrap = self.external.get(f"CDC_{cluster.upper()}_BOOTSTRAP")
        return bootstrap or ",".join(self.address(name) for name in broker_names(cluster, self.brokers))

    def login(self, cluster: str) -> str | None:
        """The `client.properties` of our own clients on the cluster `core` or `lake`; None where it asks for no login."""
        login = self.external.get(f"CDC_{cluster.upper()}_LOGIN")
        is_ours = self.logins and f"CDC_{cluster.upper()}_BOOTSTRAP" not in self.external
        return login or (str(client_login(self.home)) if is_ours else None)

    def buckets_to_make(self, store: str) -> list[str]:
        """Those chosen at the start, and those that `cdc up` has added since."""
        added = read_json(self.home.config).get("buckets", {})
        return sorted({*self.buckets.get(store, ()), *added.get(store, ())})

    @staticmethod
    def jars(name: str) -> list[Path]:
        """The cached jars of one set."""
        return [cache_folder() / jar.path for jar in read_lock().sets[name]]


def broker_names(cluster: str, brokers: int) -> list[str]:
    """A cluster's brokers by name, as `core-kafka`, `core-kafka-2`, `core-kafka-3`."""
    return [f"{cluster}-kafka" if node == 1 else f"{cluster}-kafka-{node}" for node in range(1, brokers + 1)]


class Component(ABC):
    """A process of the stack. Methods block: the supervisor calls them in threads."""

    # Seconds that a start may take before it counts as failed, a live process may be silent before it counts as hung (both by
    # `lifecycle.py`: what it works, and what the machine lacks, does not count), and a stop may take before SIGKILL.
    start_timeout: float = 90
    hung_after: float = 180
    stop_timeout: ClassVar[float] = 15
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    # What ends it when its data is to be removed.
    discard_signal: ClassVar[signal.Signals] = signal.SIGKILL
    probe_interval: ClassVar[float] = 10
    # Seconds that one probe waits for an answer; whoever watches raises it while a live process is slow.
    answer_within: float = 5

    def __init__(self, site: Site) -> None:
        self.site = site

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name for people, logs and ports."""

    @property
    def ports(self) -> tuple[str, ...]:
        """Names of its ports; the first is its address."""
        return (self.name,)

    @property
    def needs(self) -> tuple[str, ...]:
        """Components that must be healthy before it starts."""
        return ()

    @property
    def asked_through(self) -> tuple[str, ...]:
        """Components that its probe needs beside those: while they are away, it says nothing."""
        return ()

    @property
    def identity(self) -> Identity:
        """As whom it runs."""
        return Identity()

    @property
    def data(self) -> Path:
        """What it keeps over restarts."""
        return self.site.home.data(self.name)

    @property
    def run(self) -> Path:
        """What is generated at each start."""
        return self.site.home.run(self.name)

    @property
    def log(self) -> Path:
        """The component's log file in the stack's home."""
        return self.site.home.log(self.name)

    @property
    def address(self) -> str:
        """How to reach it, for people."""
        return self.site.address(self.ports[0])

    @property
    def url(self) -> str:
        """Where those who speak HTTP find it."""
        return f"http://{self.address}"

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Whatever must be there before the process starts. Runs before each start: idempotent."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that starts the process."""

    def environment(self) -> dict[str, str]:
        """All variables that the process gets; nothing else is inherited."""
        kept = ("PATH", "HOME", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")
        return {name: os.environ[name] for name in kept if name in os.environ} | allocator_variables()

    @abstractmethod
    def probe(self) -> None:
        """Prove that it does its work. Raises NotReadyError: with what was seen instead."""

    def settle(self) -> None:  # noqa: B027 - most need nothing
        """What is done once after each start, before it counts as healthy. Idempotent."""

    def recall(self) -> None:  # noqa: B027 - most need nothing
        """What an earlier process of it had in its memory, once it is healthy after a restart. It does its work meanwhile.
        Raises NotReadyError: it could not be done; nobody tries again until the next restart."""

    @property
    @abstractmethod
    def addresses(self) -> Mapping[str, str]:
        """What `stack.json` tells clients about it."""

    @property
    def keys(self) -> Mapping[str, Path]:
        """For each of its addresses that asks for a token or a login, the private file that holds it."""
        return {}

    def once(self, command: list[str], what: str, *, timeout: float = 600, stdin: str | None = None) -> str:
        """Run a preparing command as this component's user, into its log.
        Raises StackError: with the last line that it printed, or when it has not ended after so many seconds."""
        try:
            result = subprocess.run(
                as_child(command, self.identity),
                input=stdin,
                env=self.environment(),
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                cwd=self.run,
            )
        except subprocess.TimeoutExpired:
            raise StackError(self.name, f"{what} has not ended after {timeout:.0f} s", "./cdc up", log=self.log) from None
        output = result.stdout + result.stderr
        with self.log.open("a", encoding="utf-8") as log:
            log.write(output)
        if result.returncode:
            last = ([line for line in output.splitlines() if line.strip()] or ["no output"])[-1]
            raise StackError(self.name, f"{what} failed: {last}", f"./cdc logs {self.name}", log=self.log)
        return output


def allocator_variables() -> dict[str, str]:
    """glibc gives each of some hundred threads (Java's, gRPC, delta-rs, librdkafka) an arena, 8 for each core, and keeps what was
    once in it: 15 of them held 166 MB of Spark's memory, and 17 to 41 MB of each other Java's.

    https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html
    """
    return {"MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2")}
