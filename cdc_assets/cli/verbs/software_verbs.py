"""`cdc bench`, `cdc test` and `cdc licences`: how fast this software is here, its tests, and what it is made of.

Benchmarks and tests need the repository; no wheel has them, and the error says so. Licences are those of every package and jar
that the lock files name, with --sbom as a CycloneDX document.
"""

from __future__ import annotations

import datetime as dt
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows
from cdc_assets.cli.progress import console
from cdc_assets.cli.verb_frame import report_errors
from cdc_assets.registry.errors import CdcAssetsError
from spark.errors import quantity

if TYPE_CHECKING:
    from benchmarks.bench.whole_run import WholeRun
    from cdc_assets.stack.bill_of_materials import LockedPart

_ROOT = Path(__file__).parents[3]


def repository_with(folder: str, what: str, verb: str) -> Path:
    """The root of the repository.

    Raises:
        CdcAssetsError: this is none, and so has no such folder.
    """
    if not (_ROOT / folder).is_dir():
        raise CdcAssetsError(f"{what} are in the repository, and not in a wheel: clone it, then ./cdc {verb}")
    return _ROOT


_NARROW = ("scenario", "system", "median_s", "min_s", "max_s", "unit", "cpu_s", "target", "met")
_Names = Annotated[list[str] | None, typer.Option("--scenario", help="Only this one; may be given more than once.")]

_Page = Annotated[
    Path | None,
    typer.Option("--markdown", metavar="FILE", help="Write the run as a page as well, and its plot beside it as .svg."),
]
_Rows = Annotated[
    int | None, typer.Option(min=1_000, help="A trial: so many rows instead of 500000, one run that counts, no targets.")
]
_Long = Annotated[bool, typer.Option("--long", help="Every scenario, and more runs: two hours instead of ten minutes.")]
_Record = Annotated[
    Path | None,
    typer.Option("--record", metavar="FILE", help="Keep each scenario's figures there, and measure none that it holds."),
]


def bench(
    long: _Long = False,
    here: Annotated[bool, typer.Option("--here", help="On the stack that runs in CDC_HOME, beside its own work.")] = False,
    scenario: _Names = None,
    rows: _Rows = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Iceberg, foreachBatch and delta-rs as well, each run on the same events.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="With -o json, yaml or --markdown: calls to Spark and its CPU seconds, by step.")
    ] = False,
    markdown: _Page = None,
    record: _Record = None,
    output: Output = Format.text,
) -> None:
    """Measure bronze and silver with generated events, on a stack of its own that is removed afterwards.

    `median_s`, `min_s` and `max_s` are in `unit`: seconds, or cores and gigabytes of a stack at rest.
    `cpu_s` are CPU seconds of the Spark server and of this command. Neighbours hardly change them. `target` is at most.
    Each row is told as it is measured. A run that is ended prints what it has, and --record keeps it.
    Every table is compared with what was sent, the peers' too. They write one table, this product bronze and silver.
    With `--peers` a figure tells that this product is not slower than Iceberg, run by run.
    Exit 1: a figure misses its target by more than 15 %; 2: something was not measured.
    """
    repository_with("benchmarks", "the benchmarks", "bench")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # The stack goes down on the way out.
    with report_errors():
        from benchmarks.bench.measurement import Size
        from benchmarks.bench.record import BenchRecord
        from benchmarks.bench.report_page import began
        from benchmarks.bench.whole_run import Wanted, WholeRun, run_scenarios

        _assert_folders({"--markdown": markdown, "--record": record})
        size = Size(rows, profile, long)
        kept = BenchRecord(record, f"{size}, peers={peers}", began())
        run = WholeRun(tell=lambda figure: _say(str(figure)))
        try:
            run_scenarios(Wanted(scenario or (), here, peers, size, kept), run, _say)
        finally:
            _tell(run, markdown, output)
    _say_shortfalls(run)


def _tell(run: WholeRun, markdown: Path | None, output: Format) -> None:
    """What there is, also of a run that was ended."""
    from benchmarks.bench.report_page import write_page

    if run.under_way:
        _say(f"ended in the middle of {run.under_way}; with --record FILE the next run goes on behind what was measured")
    if run.figures or run.failures:
        _print([figure.row() for figure in run.figures], output)
    if markdown and run.figures:
        write_page(markdown, run, shlex.join(["./cdc", *sys.argv[1:]]))


def _assert_folders(files: dict[str, Path | None]) -> None:
    """Each file's folder is there before anything is measured."""
    for option, file in files.items():
        if file and not file.parent.is_dir():
            raise typer.BadParameter(f"{option} {file}: the folder {file.parent} does not exist")


def _say_shortfalls(found: WholeRun) -> None:
    missed = [figure for figure in found.figures if figure.is_missed]
    for figure in missed:
        _say(f"missed by more than 15 %: {figure.scenario}: {figure.median:.3g} {figure.unit}, to reach: {figure.target:.3g}")
    for name, why in found.failures.items():
        _say(f"not measured: {name}: {why}")
    if missed or found.failures:
        raise typer.Exit(2 if found.failures else 1)


def _print(rows: list[dict[str, Any]], output: Format) -> None:
    if is_data(output):
        print_document(rows, output)
    else:
        print_rows(rows, output, narrow=_NARROW)


def _say(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def test(context: typer.Context) -> None:
    """Run lint, types and the tests, or what the given pytest arguments select (then without lint)."""
    root = repository_with("cdc_assets_tests", "the tests", "test")
    process = subprocess.Popen([sys.executable, "-m", "cdc_assets_tests.run", *context.args], cwd=root)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            # The run has had it too: it stops its servers, and tells what it has played. Not to wait would be to kill it.
            continue
    if code:
        raise typer.Exit(code)


def licences(
    sbom: Annotated[bool, typer.Option("--sbom", help="Print a software bill of materials (CycloneDX 1.6, JSON).")] = False,
    vulnerabilities: Annotated[
        bool, typer.Option("--vulnerabilities", help="Ask pypi.org what is known of the packages; exit 1 if anything is.")
    ] = False,
    output: Output = Format.text,
) -> None:
    """List what uv.lock and jars.lock.toml name.

    The licence of a package is the one that it declares itself, where it is installed; a jar's stands in the lock.
    """
    from cdc_assets.cli.cdc_command import software_version
    from cdc_assets.stack.bill_of_materials import cyclonedx, parts_of_locks

    parts = parts_of_locks()
    if sbom:
        print(json.dumps(cyclonedx(parts, software_version()), indent=2))
        return
    if vulnerabilities:
        _print_vulnerabilities(parts, output)
        return
    print_rows([part_of_software.row() for part_of_software in parts], output, narrow=("name", "version", "licence"))


def _print_vulnerabilities(parts: Sequence[LockedPart], output: Format) -> None:
    from cdc_assets.stack import bill_of_materials as known

    with report_errors():
        vulnerabilities = known.find_vulnerabilities(parts)
    print_rows([vulnerability.row() for vulnerability in vulnerabilities], output, narrow=("name", "version", "id", "mended"))
    python_packages = sum(part_of_software.kind == "python" for part_of_software in parts)
    at = dt.datetime.now(dt.timezone.utc).isoformat(timespec="minutes")
    what = "known vulnerability" if len(vulnerabilities) == 1 else "known vulnerabilities"
    print(f"{len(vulnerabilities)} {what} of {quantity(python_packages, 'package')}, by {known.INDEX} at {at}", file=sys.stderr)
    jars = len(parts) - python_packages
    print(
        f"{quantity(jars, 'jar')} {'was' if jars == 1 else 'were'} not asked about: docs/reference/vulnerabilities.md",
        file=sys.stderr,
    )
    if vulnerabilities:
        raise typer.Exit(1)
