"""The life of one component: wait for what it needs, start, prove, watch, restart with back-off, give up.

A process that has died is started again at once. One that lives and does not answer is slow or hung, and not by the clock
alone: time in which it asks for CPU hardly counts, and not at all on a busy machine; time in which it does nothing counts whole,
on a busy machine a quarter of it; time in which a component that it needs is away does not count. On a busy machine nothing is
given up for being slow.

Everything that blocks runs in threads; processes are only ever forked from the event loop's own thread, because a child's
parent-death signal is tied to the thread that forked it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping

from cdc_assets.stack import component_state as health
from cdc_assets.stack.component import Component, as_child
from cdc_assets.stack.component_state import ComponentState, open_log, tail
from cdc_assets.stack.processes import MARK, Demand, demand_between, demand_of, is_busy
from cdc_assets.stack.stack_errors import NotReadyError, StackError
from spark.errors import quantity

# Of one CPU: what timers and garbage collection of an idle JVM ask for is below it.
_AT_WORK = 0.1
_WORKS_ON_IDLE_MACHINE = 0.1
_RESTS_ON_BUSY_MACHINE = 0.25
_RESTS_ON_IDLE_MACHINE = 1.0
# Between two looks at a process: a JVM has 200 threads.
_LOOK_EVERY = 0.5
# Of one look's time: the supervisor itself may have been stopped, or the machine asleep.
_LONGEST_LOOK = 120.0


class Patience:
    """One wait for an answer. `limit` is in seconds of a process that does nothing, on a machine that is not busy."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.seen = ""
        self._at = time.monotonic()
        self._demand: Demand | None = None

    def look(self, pid: int, *, excused: bool = False) -> None:
        """Count the time since the last look; excused where it waits for somebody else."""
        seconds = time.monotonic() - self._at
        if self._demand is not None and seconds < _LOOK_EVERY:
            return
        demand = demand_of(pid)
        demanded = demand_between(self._demand, demand) if self._demand is not None else 0.0
        # The first look has nothing to compare with: what it did until then is not known.
        weight, self.seen = (
            (0.0, "") if self._demand is None else judge_patience(demanded / seconds, busy=is_busy(), excused=excused)
        )
        self.spent += weight * min(seconds, _LONGEST_LOOK)
        self._at, self._demand = time.monotonic(), demand


def judge_patience(share: float, *, busy: bool, excused: bool) -> tuple[float, str]:
    """What a second without an answer weighs, and why; `share` of one CPU it ran, or wanted to."""
    if excused:
        return 0.0, "waits for what it needs"
    machine = "the machine is busy" if busy else "the machine is not busy"
    if share >= _AT_WORK:
        return (0.0 if busy else _WORKS_ON_IDLE_MACHINE), f"slow, but at work: {machine}"
    return (_RESTS_ON_BUSY_MACHINE if busy else _RESTS_ON_IDLE_MACHINE), f"does nothing, and {machine}"


# Given up after so many starts within the window; the pause doubles from start to start.
MAX_STARTS = 4
WINDOW = 300.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 20.0
_POLL_WHILE_STARTING = 0.25
# An end within so many seconds of its start is never for want of a machine.
_QUICK = 20.0
# A probe waits this many times as long for an answer, and a process that has hung may be silent this many times as long, at most.
_LONGEST_ANSWER = _MOST_PATIENCE = 8


class Watched:
    """A component under supervision."""

    def __init__(self, component: Component, changed: Callable[[], None]) -> None:
        self.component = component
        self.state = ComponentState(component.name, component.address, str(component.log))
        self.healthy = asyncio.Event()
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        # When each start of the last minutes was, and whether it speaks against the component.
        self._starts: deque[tuple[float, bool]] = deque()
        self._hung = 0
        self._answer_within = component.answer_within
        self._others: Mapping[str, Watched] = {}
        self._recalling: asyncio.Task[None] | None = None

    async def live(self, others: Mapping[str, Watched]) -> None:
        """Run until cancelled, or given up."""
        self._others = others
        try:
            for name in self.component.needs:
                await others[name].healthy.wait()
            while True:
                began = time.monotonic()
                try:
                    await self._start()
                    await self._watch()
                except (StackError, NotReadyError) as error:
                    await self._kill()
                    lived = time.monotonic() - began
                    self._starts.append((began, lived < _QUICK or not await asyncio.to_thread(is_busy)))
                    if not await self._again(error):
                        return
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await self._kill()
            self._set(health.FAILED, f"{type(error).__name__}: {error}")
            raise

    async def _start(self) -> None:
        began = time.monotonic()
        self._set(health.STARTING, "preparing")
        await asyncio.to_thread(self.component.prepare)
        log = open_log(self.component.log)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *as_child(await asyncio.to_thread(self.component.command), self.component.identity),
                env={**await asyncio.to_thread(self.component.environment), MARK: str(self.component.site.home.root)},
                cwd=self.component.run,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Out of the terminal's process group: Ctrl-C is for the supervisor, which stops in order.
                start_new_session=True,
            )
        finally:
            os.close(log)
        self.state.pid = self._process.pid
        self._set(health.STARTING, "started, not answering yet")
        await self._until_answered(self.component.probe)
        await self._until_answered(self.component.settle)
        self.state.started_in = round(time.monotonic() - began, 1)
        self.healthy.set()
        self._set(health.HEALTHY, "")
        if self.state.restarts:
            self._recalling = asyncio.create_task(self._recall())

    async def _recall(self) -> None:
        try:
            await self._ask(self.component.recall)
        except (StackError, NotReadyError) as error:
            # It goes on without: what it lacks is told in the supervisor's log.
            print(f"{self.component.name}, after a restart: {error}", file=sys.stderr, flush=True)

    async def _ask(self, question: Callable[[], None]) -> None:
        """A probe's answer; what it did not foresee is an answer as well, and so is the end of the process.
        Raises NotReadyError: it does not answer, or not as it must."""
        process = self._running()
        answer = asyncio.ensure_future(asyncio.to_thread(question))
        # Nobody may wait for the thread any more: what it raises then is nobody's error.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        end = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait({answer, end}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            end.cancel()
        self._raise_if_dead()
        try:
            await answer
        except (NotReadyError, StackError):
            raise
        except Exception as error:
            raise NotReadyError(f"{type(error).__name__}: {error}") from error

    async def _until_answered(self, question: Callable[[], None]) -> None:
        patience, limit = Patience(), self.component.start_timeout
        began = time.monotonic()
        while True:
            self._raise_if_dead()
            try:
                return await self._ask(question)
            except NotReadyError as error:
                await self._look(patience)
                if patience.spent > limit:
                    raise self._end(f"not ready after {time.monotonic() - began:.0f} s ({patience.seen}): {error}") from error
                self._set(health.STARTING, str(error))
            await self._exit_within(_POLL_WHILE_STARTING)

    async def _watch(self) -> None:
        patience: Patience | None = None
        began = time.monotonic()
        while True:
            await self._exit_within(self.component.probe_interval)
            self._raise_if_dead()
            try:
                await self._ask(self.component.probe)
            except NotReadyError as error:
                patience = patience or Patience()
                await self._look(patience)
                limit = self.component.hung_after * min(2**self._hung, _MOST_PATIENCE)
                if patience.spent > limit:
                    self._hung = self._hung + 1 if time.monotonic() - began < WINDOW else 1
                    raise self._end(f"hung: no answer, and it {patience.seen}; the last probe: {error}") from error
                self._set(health.UNHEALTHY, f"{error} ({patience.seen})" if patience.seen else str(error))
                self.component.answer_within = min(2 * self.component.answer_within, _LONGEST_ANSWER * self._answer_within)
            else:
                patience, self.component.answer_within = None, self._answer_within
                self._set(health.HEALTHY, "")

    async def _look(self, patience: Patience) -> None:
        needed = (*self.component.needs, *self.component.asked_through)
        away = [name for name in needed if name in self._others and self._others[name].state.health != health.HEALTHY]
        await asyncio.to_thread(patience.look, self._running().pid, excused=bool(away))

    def _running(self) -> asyncio.subprocess.Process:
        assert self._process
        return self._process

    async def _exit_within(self, seconds: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._running().wait()), seconds)

    def _raise_if_dead(self) -> None:
        code = self._running().returncode
        if code is None:
            return
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        last = next((line for line in reversed(tail(self.component.log, 30)) if line.strip()), "")
        raise self._end(f"{how}; last line: {last[:300]}")

    def _end(self, reason: str) -> StackError:
        return StackError(self.component.name, reason, f"./cdc logs {self.component.name}")

    async def _again(self, error: Exception) -> bool:
        """Pause before the next start; False when given up."""
        self.healthy.clear()
        reason = error.reason if isinstance(error, StackError) else str(error)
        now = time.monotonic()
        while self._starts and now - self._starts[0][0] > WINDOW:
            self._starts.popleft()
        if sum(counts for _, counts in self._starts) >= MAX_STARTS:
            self._set(health.FAILED, f"{quantity(len(self._starts), 'start')} failed, the last one: {reason}")
            return False
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** max(0, len(self._starts) - 1))
        self.state.restarts += 1
        self._set(health.BACKOFF, f"again in {pause:.1f} s: {reason}")
        await asyncio.sleep(pause)
        return True

    def forgive(self) -> None:
        """Forget the starts that have failed."""
        self._starts.clear()
        self._hung = 0
        self._set(health.WAITING, "")

    async def stop(self, *, discard: bool = False) -> None:
        """End the process: politely first, unless its data is to be removed."""
        process = self._process
        if process and process.returncode is None:
            self._set(health.STOPPING, "")
            process.send_signal(self.component.discard_signal if discard else self.component.stop_signal)
            busy = not discard and await asyncio.to_thread(is_busy)
            await self._exit_within(self.component.stop_timeout * (_MOST_PATIENCE if busy else 1))
        await self._kill()
        self._set(health.STOPPED, "")

    async def _kill(self) -> None:
        self.healthy.clear()
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self.state.pid = None

    def _set(self, value: str, detail: str) -> None:
        if self.state.health != value:
            self.state.since = time.time()
        if (self.state.health, self.state.detail) != (value, detail):
            self.state.health, self.state.detail = value, detail
            self._changed()
