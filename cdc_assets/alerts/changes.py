"""What there is to tell: checks that went red or green, and runs that failed, since a channel was told last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.shown_text import visible_lines
from cdc_assets.volumetry.check_verdicts import FAILED, NOT_RUN, CheckVerdict

_LONGEST = 1000
"""Characters of a finding: a check may list many keys."""


@dataclass(frozen=True)
class Alert:
    """One message: `state` is red, green or failed. `mend` is the command, `link` a page of Dagster; either may be empty."""

    state: str
    place: str
    description: str = ""
    mend: str = ""
    link: str = ""

    def to_json(self) -> dict[str, str]:
        """The fields that a webhook gets."""
        return asdict(self)

    def text(self) -> str:
        """Some lines for people."""
        lines = [f"{self.state.upper()} {self.place}" + (f": {self.description}" if self.description else "")]
        lines += [f"  mend: {self.mend}"] if self.mend else []
        lines += [f"  {self.link}"] if self.link else []
        return visible_lines("\n".join(lines))


@dataclass(frozen=True)
class FailedRun:
    """A run that failed; `at` in epoch seconds."""

    run_id: str
    job: str
    at: float
    reason: str


@dataclass(frozen=True)
class ToldChanges:
    """What a channel knows: checks that are red, and up to when failed runs were told (epoch seconds)."""

    red: tuple[str, ...] = ()
    runs_up_to: float = 0.0
    runs: tuple[str, ...] = ()
    """Those of exactly that time."""


def changes(
    verdicts: Sequence[CheckVerdict],
    runs: Sequence[FailedRun],
    told: ToldChanges,
    *,
    mend: Callable[[CheckVerdict], str],
    page: str,
) -> tuple[list[Alert], ToldChanges]:
    """The alerts that the channel lacks, and what it knows once it has them. A check that has not run yet stays as it was."""
    by_place = {verdict.place: verdict for verdict in verdicts}
    red = [verdict for verdict in verdicts if verdict.state == FAILED and verdict.place not in told.red]
    kept = [place for place in told.red if place in by_place and by_place[place].state in (FAILED, NOT_RUN)]
    alerts = [_red(verdict, mend(verdict), page) for verdict in red]
    alerts += [Alert("green", place) for place in told.red if place in by_place and place not in kept]
    fresh = [run for run in runs if (run.at, run.run_id not in told.runs) > (told.runs_up_to, False)]
    alerts += [Alert("failed", f"run of {run.job}", _short(run.reason), link=f"{page}/runs/{run.run_id}") for run in fresh]
    newest = max([told.runs_up_to, *(run.at for run in fresh)])
    ids = tuple(run.run_id for run in runs if run.at == newest)
    return alerts, ToldChanges((*kept, *(verdict.place for verdict in red)), newest, ids)


def _red(verdict: CheckVerdict, mend: str, page: str) -> Alert:
    link = f"{page}/assets/{'/'.join(verdict.asset)}?view=checks&checkDetail={verdict.name}" if page else ""
    return Alert("red", verdict.place, _short(verdict.description), mend, link)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def as_told(found: Mapping[str, Any]) -> ToldChanges:
    """From the sensor's cursor."""
    return ToldChanges(tuple(found.get("red") or ()), float(found.get("runs_up_to") or 0), tuple(found.get("runs") or ()))
