"""What a verb costs before it answers: seconds, and seconds of processor time (user and system), of `./cdc`.

    python -m benchmarks.cli [--runs 10] [--beside FOLDER] [VERB OPTION...]

Without a verb: `--version`, `--help` and `status`, the last on the stack of CDC_HOME, which must run. Each is started as a user
starts it, once beforehand. `--beside` names another checkout: both take turns on the one stack, and the ratios of this one to
the other are printed. Neighbours make a run last longer, but hardly dearer: on a busy machine compare the processor time.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.paired import Took, ratios

HERE = Path(__file__).resolve().parents[1]
VERBS = (("--version",), ("--help",), ("status",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--beside", type=Path, help="another checkout, with its environment made")
    chosen, verb = parser.parse_known_args()
    for words in (tuple(verb),) if verb else VERBS:
        measure(words, [HERE, *([chosen.beside.resolve()] if chosen.beside else [])], chosen.runs)


def measure(words: tuple[str, ...], folders: list[Path], runs: int) -> None:
    found: dict[Path, list[Took]] = {folder: [] for folder in folders}
    for folder in folders:
        run(folder, words)
    for number in range(runs):
        # Whoever comes first may pay for the second.
        for folder in folders if number % 2 == 0 else reversed(folders):
            found[folder].append(run(folder, words))
    for folder, took in found.items():
        wall, cpu = (sorted(each) for each in zip(*took, strict=True))
        print(
            f"{' '.join(words):12} {median(wall):5.2f} s ({wall[0]:.2f} to {wall[-1]:.2f}), "
            f"processor {median(cpu):5.2f} s ({cpu[0]:.2f} to {cpu[-1]:.2f})  {folder}",
            flush=True,
        )
    if len(folders) == 2:
        print(f"{' '.join(words):12} this to the other: {ratios(*found.values())}", flush=True)


def run(folder: Path, words: tuple[str, ...]) -> Took:
    """Once. A verb that ends with 2 or more (nothing runs: 3) is told, and ends the measurement; 1 is a finding."""
    home = os.environ.get("CDC_HOME") or str(HERE / ".cdc")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "CDC_HOME": home}
    # There: `python -m` looks into the current folder first.
    done = subprocess.run([str(folder / "cdc"), *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1:
        sys.exit(f"{folder}/cdc {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return Took(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    main()
