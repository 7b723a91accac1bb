"""What a component is. Nothing here knows any particular one."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from cdc_assets.stack.errors import StackError
from cdc_assets.stack.identity import Identity, wrap
from cdc_assets.stack.site import Site


class Component(ABC):
    """A process of the stack. Methods block: the supervisor calls them in threads."""

    # Seconds that a start may take before it counts as failed, a live process may be silent before it counts as hung (both by
    # `patience.py`: what it works, and what the machine lacks, does not count), and a stop may take before SIGKILL.
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
        """Prove that it does its work.

        Raises:
            NotReadyError: with what was seen instead.
        """

    def settle(self) -> None:  # noqa: B027 - most need nothing
        """What is done once after each start, before it counts as healthy. Idempotent."""

    def recall(self) -> None:  # noqa: B027 - most need nothing
        """What an earlier process of it had in its memory, once it is healthy after a restart. It does its work meanwhile.

        Raises:
            NotReadyError: it could not be done; nobody tries again until the next restart.
        """

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

        Raises:
            StackError: with the last line that it printed, or when it has not ended after so many seconds.
        """
        try:
            result = subprocess.run(
                wrap(command, self.identity),
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
