"""Records that bronze holds twice, because two writers appended one range: whoever meets them takes them out."""

from __future__ import annotations

from collections.abc import Callable

from cdc_assets import names
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.platform import Platform


def take_out_copies(platform: Platform, source: BaseSource, say: Callable[[str], object]) -> None:
    """Nothing to do is told by the log alone, in milliseconds.

    Raises:
        SparkRunError: Spark could not take them out.
    """
    path = names.bronze_path(platform.lake, source)
    committed = bronze_committed(path)
    if committed is None or not committed.overlaps:
        return
    from spark.bronze import overlap as bronze_overlap

    for found in platform.spark().run(bronze_overlap.run, path):
        say(f"{found.topic} partition {found.partition}: offsets {found.start} to {found.end - 1} were appended twice; taken out")
