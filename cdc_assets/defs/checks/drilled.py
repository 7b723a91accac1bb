"""The check of a source's drill: red when the backup gives other rows back than silver holds, or nobody has looked for long."""

import time

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.keys import key_of_check
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.quantity import quantity
from cdc_assets.registry.durations import format_duration
from cdc_assets.registry.models import BaseSource

NAME = "drilled"


def key_of_drilled(source: BaseSource) -> dg.AssetCheckKey:
    """The key of the source's check."""
    return key_of_check(NAME, names.DRILL, source)


def build_drilled_check(source: BaseSource) -> dg.AssetChecksDefinition:
    """One check per source that declares a drill; what it looks at is the note of the last one."""
    if source.drill is None:
        raise ValueError(f"source {source.name} declares no drill")
    key, oldest = key_of_drilled(source), source.drill.oldest
    description = f"The backup was restored within {format_duration(oldest)}, and is what silver holds."
    spec = dg.AssetCheckSpec(NAME, asset=key.asset_key, description=description, blocking=True)

    @dg.multi_asset_check(name=names.op_name("drilled", source), specs=[spec])
    def check(platform: PlatformResource) -> dg.AssetCheckResult:
        from cdc_assets.restore.drill_record import last_drill

        last = last_drill(platform.lake, source)
        if last is None:
            told = f"there was no drill yet: cdc drill {source.name}"
            return check_result(key, False, told, {}, severity=dg.AssetCheckSeverity.WARN)
        age = time.time() - last.at
        wrong = [f"{table.table}: {table.sentence}" for table in last.tables if not table.is_equal]
        if age > oldest.total_seconds():
            wrong.append(f"the last drill was at {last.moment}: cdc drill {source.name}")
        told = f"{quantity(sum(table.rows for table in last.tables), 'row')} equal at {last.moment}"
        metadata = {"cdc/age_hours": round(age / 3600, 2), "cdc/minutes": round(last.seconds / 60, 2), "cdc/bytes": last.bytes}
        return check_result(key, not wrong, "; ".join(wrong) or told, metadata)

    return check
