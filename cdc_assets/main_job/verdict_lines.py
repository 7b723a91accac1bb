"""Checks that are red or warn, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape

from cdc_assets.common_causes import Complaint, common_causes, first_and_more
from cdc_assets.names import ASSET_LAYERS
from cdc_assets.shown_text import visible
from cdc_assets.volumetry.check_verdicts import FAILED, NOT_RUN, WARNED, CheckVerdict

_OF_TABLES = {*ASSET_LAYERS} - {"connector"}


def is_red(verdicts: Iterable[CheckVerdict]) -> bool:
    """Whether one failed, or did not run although all were asked for."""
    return any(each.state in (FAILED, NOT_RUN) for each in verdicts)


def print_verdicts(console: Console, verdicts: Sequence[CheckVerdict]) -> None:
    """A line for each cause: what failed or did not run, then what warns; all tables that have the same are one line."""
    for colour, states, word in (("red", (FAILED, NOT_RUN), ""), ("yellow", (WARNED,), " warns")):
        told = [Complaint(each.place, _table(each), each.description, each.state) for each in verdicts if each.state in states]
        for same in common_causes(told):
            line = f"{first_and_more(same)}{word}: {same[0].text}"
            console.print(f"[{colour}]{escape(visible(line))}[/{colour}]", highlight=False, soft_wrap=True)


def _table(verdict: CheckVerdict) -> str:
    """Of a check of a table its name; what belongs to a source is told for each source."""
    layer, _, name = verdict.asset
    return name.removeprefix(f"{layer}_") if layer in _OF_TABLES else ""
