"""A small real component: an HTTP server that answers each GET, or works for a while before it answers again.

`GET /work` keeps its only thread busy for as long as there is the file `work` in its folder; nothing is answered meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

import psutil
from typing_extensions import override

from cdc_assets.stack.component import Component
from cdc_assets.stack.home import private_folder
from cdc_assets.stack.lifecycle import Watched
from cdc_assets.stack.stack_errors import NotReadyError

_SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        while self.path == "/work" and os.path.exists("work"):
            pass
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class ProbeServer(Component):
    """It is asked five times a second, and answers in a millisecond."""

    probe_interval = 0.2
    answer_within = 0.2
    failed_probes = 0

    @property
    @override
    def name(self) -> str:
        return "probe"

    @override
    def prepare(self) -> None:
        private_folder(self.run)

    @override
    def command(self) -> list[str]:
        return [sys.executable, "-S", "-c", _SERVER, str(self.site.ports["probe"])]

    def ask(self, path: str, timeout: float) -> None:
        """GET; raises OSError where no answer comes in time."""
        with urlopen(f"http://{self.address}{path}", timeout=timeout) as answer:
            answer.read()

    @override
    def probe(self) -> None:
        try:
            self.ask("/", self.answer_within)
        except (URLError, OSError) as error:
            self.failed_probes += 1
            raise NotReadyError(str(error)) from error

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        return {}


@contextmanager
def watching(component: Component, *others: Component) -> Iterator[Watched]:
    """The component under supervision, in an event loop of its own, and those that it needs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    watched = {c.name: Watched(c, lambda: None) for c in (component, *others)}
    lives = [asyncio.run_coroutine_threadsafe(w.live(watched), loop) for w in watched.values()]
    try:
        yield watched[component.name]
    finally:
        for life in lives:
            life.cancel()
        for each in watched.values():
            asyncio.run_coroutine_threadsafe(_stop(each), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


async def _stop(watched: Watched) -> None:
    # A stopped (SIGSTOP) process would sit out its stop_timeout.
    if watched.state.pid and psutil.pid_exists(watched.state.pid):
        psutil.Process(watched.state.pid).resume()
    await watched.stop()


@contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """So many processes at normal priority that never sleep, for as long as this lasts and for two minutes at most."""
    from cdc_assets.stack.component import as_child

    spin: Sequence[str] = (
        *(sys.executable, "-S", "-c"),
        "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass",
    )
    hogs = [psutil.Popen(as_child([*spin])) for _ in range(processes)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
        for hog in hogs:
            hog.wait()
