"""What a long value costs on its whole way: twice the bytes take at most 2.6 times as long, in each step and for each type.

    python -m benchmarks.long_values [--megabytes 16] [--only TYPE ...]

Starts a Spark Connect server of its own. A row has a value of half the size, and another one of the whole. Each goes into
bronze, and into silver by a task and by Spark's own job; it is compared, counted, backed up and restored. A step below a
second says nothing of its value. What is worse than n log n is named, and the exit code is 1: n log n is 2.1 at 16 MB, n² is
4.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.lake.jvm import spark_connect
from cdc_assets_tests.support.lake.long_rows import STEPS, LongRow
from cdc_assets_tests.support.values.long_values import LONG
from spark.table.spark_session import connect

AT_MOST, LEAST_SECONDS = 2.6, 1.0
SOURCE = """
source: source
database: {{kind: postgresql, host: localhost, dbname: shop, user: shop, password: {{secret: shop}}}}
backup: {{store: {{kind: local, bucket: {bucket}, prefix: lake}}}}
tables: [{{name: public.long}}]
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--only", nargs="*", choices=[*LONG], default=[*LONG])
    chosen = parser.parse_args()
    size = chosen.megabytes << 20
    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder:
        os.environ["CDC_HOME"] = f"{folder}/home"
        with spark_connect(Path(folder) / "spark", optimize=True) as (remote, _):
            measure(Path(folder), remote, "text", size // 16)  # the server is warm
            print(f"{'seconds at ' + str(chosen.megabytes) + ' MB':24}" + "".join(f"{step:>20}" for step in STEPS), flush=True)
            worse = [told for type_ in chosen.only for told in growth(Path(folder), remote, type_, size)]
    for told in worse:
        print(told, file=sys.stderr)
    sys.exit(1 if worse else 0)


def growth(folder: Path, remote: str, type_: str, size: int) -> list[str]:
    """Prints a line of the type; what grows faster than it may."""
    half, whole = measure(folder, remote, type_, size // 2), measure(folder, remote, type_, size)
    times = {step: whole[step] / max(half[step], LEAST_SECONDS) for step in STEPS}
    print(f"{type_:24}" + "".join(f"{f'{whole[step]:.1f} (x{times[step]:.2f})':>20}" for step in STEPS), flush=True)
    return [
        f"{type_}: {step} takes {half[step]:.1f} s, and of twice the bytes {whole[step]:.1f} s"
        for step in STEPS
        if times[step] > AT_MOST
    ]


def measure(folder: Path, remote: str, type_: str, size: int) -> dict[str, float]:
    """Seconds by step, of a lake of its own."""
    root = Path(tempfile.mkdtemp(dir=folder))
    session = connect(remote)
    try:
        row = LongRow(session, root, type_, size, declare(root))
        row.play()
        return row.seconds
    finally:
        session.stop()


def declare(root: Path) -> Source:
    file = root / "source.yaml"
    file.write_text(SOURCE.format(bucket=root / "bucket"))
    source = load_source(file)
    assert isinstance(source, Source)
    return source


if __name__ == "__main__":
    main()
