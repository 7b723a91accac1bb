"""`./cdc test`: the core of the suite, more of it by rotation, what a change touches, or what pytest's arguments select."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.stack.runtimes import share_classes
from cdc_assets_tests.parts import PARTS
from cdc_assets_tests.run import changed, ground, page, record, rotation
from cdc_assets_tests.run.catalogue import PYTEST, ROOT, Test, collect
from cdc_assets_tests.run.parts import checks, fast_steps, part_steps, write_limit
from cdc_assets_tests.run.processes import Processes
from cdc_assets_tests.run.steps import Step, clock, environment, play, say
from cdc_assets_tests.run.tally import last_line, told

# A live part waits for most of its time, a fold is driven by one thread: three fill two cores beside the ground.
_AT_A_TIME = 3
_FAST_AT_A_TIME = 2
_MARK = "TESTS_OF_RUN"


def main(arguments: Sequence[str]) -> int:
    """The exit code of `./cdc test` with these arguments."""
    options, rest = _parser().parse_known_args(arguments)
    try:
        budget = rotation.duration(options.rotate or options.oldest) if options.rotate or options.oldest else None
        seed = rotation.seed_of(options.seed)
        within = rotation.duration(options.within) if options.within else None
        for part in options.part or ():
            if part not in PARTS:
                raise CdcAssetsError(f"there is no part {part!r} of the tests: {', '.join(PARTS)}")
        if options.record:
            page.write_record()
            return 0
        if rest or options.part:
            return _selection(options, rest)
        return _Run(options, budget, seed, within).play()
    except CdcAssetsError as error:
        print(f"cdc: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cdc: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("cdc test", add_help=False, allow_abbrev=False)
    for name in ("--fast", "--all", "--changed", "--record"):
        parser.add_argument(name, action="store_true")
    for name in ("--rotate", "--oldest", "--seed", "--within"):
        parser.add_argument(name)
    parser.add_argument("--part", action="append")
    return parser


def _selection(options: argparse.Namespace, rest: Sequence[str]) -> int:
    """What pytest's arguments select, in one process, with its output as it comes."""
    modes = [f"--{name}" for name in ("fast", "all") if getattr(options, name)]
    parts = [f"--part={part}" for part in options.part or ()]
    with (
        tempfile.TemporaryDirectory(prefix="cdc-test-") as home,
        tempfile.TemporaryDirectory(prefix="cdc-test-results-") as folder,
    ):
        lines = Path(folder) / "selection.jsonl"
        # Of the system's programs it brings those that its tests ask for.
        programs = ("-p", "cdc_assets_tests.programs.when_asked")
        command = [*PYTEST, *programs, f"--minutes={lines}", *modes, *parts, *rest]
        code = _code_of(subprocess.Popen(command, cwd=ROOT, env=environment(home)))
        if lines.exists():
            record.note_passed([lines])
            minutes = record.measured("", {"selection": lines})
            say("\n".join([*told(minutes.reasons), last_line(minutes)]))
    return 1 if code else 0


def _code_of(process: subprocess.Popen[bytes]) -> int:
    """Also after Ctrl-C, which the process has had as well: it stops what it has started."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


class _Run:
    """One run of many tests: its folder of results, and what earlier runs have recorded."""

    def __init__(self, options: argparse.Namespace, budget: float | None, seed: int, within: float | None) -> None:
        self._options, self._budget, self._seed, self._within = options, budget, seed, within
        self._passed = record.read_passed(record.COMMITTED) | record.read_passed(record.PASSED)
        self._seconds: dict[str, float] = {}
        self._began = time.monotonic()
        self._processes = Processes(_MARK)
        self._failed: list[str] = []
        self._servers: dict[str, float] = {}
        self._unsteady: list[str] = []

    def play(self) -> int:
        """Play it, print what it took, and keep that in `.cdc-test/`."""
        self._processes.watch()
        with ExitStack() as stack:
            results = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cdc-test-results-")))
            try:
                if self._options.fast:
                    self._play([*checks(["ruff format --check", "ruff check", "lint-imports"]), *fast_steps(results)], results)
                else:
                    self._play_on_ground(results)
            finally:
                code = self._tell(results)
        return code

    def _play_on_ground(self, results: Path) -> None:
        say(f"{clock(0)} · collecting the tests, and bringing the programs that they need")
        # It tells by itself what it cannot bring; the tests that need it are skipped.
        subprocess.run([sys.executable, "-m", "cdc_assets_tests.programs"], cwd=ROOT, check=True)
        share_classes()
        with tempfile.TemporaryDirectory(prefix="cdc-test-") as home, ground.started(environment(home)) as (addresses, process):
            servers = Processes("", process.pid)
            tests = collect(environment(home))
            self._seconds = rotation.estimates(tests, self._passed)
            options = [f"--ground={addresses}"]
            lint = list(checks())
            if self._options.all:
                self._play([*part_steps(tests, self._seconds, results, [*options, "--all"]), *lint], results)
            elif self._options.changed:
                self._play([*part_steps(self._touched(tests), self._seconds, results, options), *lint], results)
            elif not self._options.oldest:
                core = [test for test in tests if test.is_core]
                self._play([*part_steps(core, self._seconds, results, options), *lint], results)
            if self._budget and not self._failed:
                self._rotate(tests, results, options)
            self._servers = {"spark and kafka of all parts": round(servers.look(), 1)}

    def _touched(self, tests: Sequence[Test]) -> list[Test]:
        files = changed.changed_files()
        touched, others = changed.touched(files)
        say(f"{len(files)} files have changed; they touch {len(touched)} files of tests")
        if others:
            say(f"no import tells who uses {', '.join(others)}: the tests of the pages are played for them")
        return [test for test in tests if test.is_core and test.file in touched]

    def _rotate(self, tests: Sequence[Test], results: Path, options: Sequence[str]) -> None:
        assert self._budget is not None
        passed = time.monotonic() - self._began
        budget = rotation.budget_left(self._budget, self._within, passed)
        if not budget:
            say(f"no time is left for the rotation: {clock(passed)} of {self._options.within} have passed")
            return
        waiting = rotation.waited([test for test in tests if not test.is_core], self._passed, self._seed)
        groups = rotation.chosen(waiting, self._seconds, budget, _AT_A_TIME)
        picked = [test for group in groups for test in group]
        again = f"--{'rotate' if self._options.rotate else 'oldest'} {self._options.rotate or self._options.oldest}"
        of_all = sum(map(len, waiting))
        say(f"the rotation plays {len(picked)} of the {of_all} tests that are not of the core")
        say(f"the same again: ./cdc test {again} --seed {self._seed}")
        longest = max((sum(self._seconds[test.id] for test in group) for group in groups), default=0.0)
        until = time.time() + max(budget, longest)
        limit = write_limit(results / "limit.json", until, self._seconds)
        folder = results / "rotation"
        folder.mkdir()
        # What nobody has recorded may take an hour: it is interrupted after a second time of that length.
        self._play(part_steps(picked, self._seconds, folder, [*options, limit], until + budget), folder)
        self._play_again(groups, folder, options)

    def _play_again(self, groups: Sequence[Sequence[Test]], folder: Path, options: Sequence[str]) -> None:
        """What failed is played once more with nothing beside it; what passes then is told as unsteady, and no failure.

        The tests of the rotation were written for a machine of their own; those of the core get no second try.
        """
        lines = [line for file in sorted(folder.glob("*.jsonl")) for line in record.read_lines(file)]
        names = {line["test"] for line in lines if line.get("outcome") == "failed"}
        if not names:
            return
        say(f"once more, alone: {', '.join(sorted(names))}")
        again = folder / "again"
        again.mkdir()
        before, self._failed = self._failed, []
        failed = [test for group in groups if names & {test.id for test in group} for test in group]
        for step in part_steps(failed, self._seconds, again, options):
            self._play([step], again)
        passed = {
            line["test"] for file in again.glob("*.jsonl") for line in record.read_lines(file) if line.get("outcome") == "passed"
        }
        self._unsteady = sorted(names & passed)
        if names - passed:
            self._failed = before

    def _play(self, steps: Sequence[Step], results: Path) -> None:
        at_a_time = _FAST_AT_A_TIME if self._options.fast else _AT_A_TIME
        ended = play(steps, results, at_a_time, self._seconds)
        self._failed += [each.step.name for each in ended if each.code]

    def _tell(self, results: Path) -> int:
        files = {
            str(file.relative_to(results).with_suffix("")): file for file in sorted(results.rglob("*.jsonl"), key=_played_later)
        }
        record.note_passed(files.values())
        minutes = record.measured(" ".join(["./cdc test", *sys.argv[1:]]), files)
        minutes.seconds = round(time.monotonic() - self._began, 1)
        minutes.processor, minutes.jvms = round(self._processes.look(), 1), self._processes.jvms
        minutes.servers, minutes.unsteady = self._servers, self._unsteady
        record.write(minutes)
        say("\n".join(page.summary(minutes, record.read_parts())))
        if self._failed:
            say(f"failed: {', '.join(self._failed)}")
        say(last_line(minutes))
        return 1 if self._failed else 0


def _played_later(file: Path) -> tuple[int, str]:
    return len(file.parts), str(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
