"""What must hold before anything is changed: the tables exist, can be published, have a key, and the connector runs."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets import names
from cdc_assets.connectors.apply import HELD
from cdc_assets.connectors.capture import tables_in_list
from cdc_assets.connectors.debezium_common import SIGNALS
from cdc_assets.connectors.signals import is_unsignallable
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.work import OnboardingWork, Step
from cdc_assets.preflight.capturable import refuse_uncapturable
from cdc_assets.registry.models import CapturedSource

_BY_SIGNAL = ("signal.enabled.channels", "notification.enabled.channels", "notification.sink.topic.name")


def run(work: OnboardingWork) -> Facts:
    """Every finding at once, with what mends it."""
    source, ids = work.after, [table.id for table in work.tables]
    found = work.database.tables([table.id for table in source.tables])
    findings = [f"there is no table {i}; create it, or correct its name" for i in ids if i not in found]
    findings += work.kind.unready(work, ids)
    for table in work.tables:
        if table.id in found and not (found[table.id].primary_key or table.keys):
            findings.append(work.kind.keyless.format(table=table.name))
    if work.state.route != "temporary":
        wide = [table.name for table in work.tables if is_unsignallable(table.id)]
        findings += list(_find_unsignalled(source))
        findings += [f"{name}: no signal can name it (a blank, quote or dot in it); take route temporary" for name in wide]
    if not findings:
        asked_for = source.model_copy(update={"tables": work.tables})
        refuse_uncapturable(work.database, asked_for, work.kind.columns(work, found), to_read=ids)
    name = names.connector_name(source)
    status = work.core_connect.status(name)
    if status is None or not status.running:
        seen = "does not exist" if status is None else f"is {status.state}, tasks {', '.join(status.tasks) or 'none'}"
        first = f"cdc resume {name}" if status is not None and status.state in HELD else "materialize it"
        findings.append(f"connector {name} {seen}; {first}, then {work.resume}")
    if findings:
        raise OnboardingError(f"{work.database.place}: nothing was changed:\n" + "\n".join(f"  {f}" for f in findings))
    listing = tables_in_list(source, work.core_connect.config(name) or {})
    return {
        "tables": {table.name: len(found[table.id].columns) for table in work.tables},
        "connector": name,
        "captured": [table.name for table in work.tables if table.name in listing],
    }


def _find_unsignalled(source: CapturedSource) -> Iterator[str]:
    """A connector that was taken over may have neither signals nor notifications."""
    out = [key for key in (SIGNALS, *_BY_SIGNAL) if source.capture.settings.get(key, "") is None]
    if out:
        yield (
            f"{', '.join(out)} are left out by capture.settings of {source.name}, so its connector takes no signals: take these "
            "lines out of capture.settings (it gets ours while it is stopped for the tables), or take --route temporary"
        )


STEP = Step("preflight", "the tables exist, have a key, can be published, and the connector runs", run)
