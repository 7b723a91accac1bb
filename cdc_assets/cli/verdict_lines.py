"""Checks that are red or warn, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape

from cdc_assets.proof.chain_verdicts import FAILED, NOT_RUN, WARNED, CheckVerdict
from cdc_assets.registry.display_text import Complaint, common_causes, first_and_more, visible
from cdc_assets.registry.names import ASSET_LAYERS

_OF_TABLES = {*ASSET_LAYERS} - {"connector"}


def is_red(verdicts: Iterable[CheckVerdict]) -> bool:
    """Whether one failed, or did not run although all were asked for."""
    return any(verdict.state in (FAILED, NOT_RUN) for verdict in verdicts)


def print_verdicts(console: Console, verdicts: Sequence[CheckVerdict]) -> None:
    """A line for each cause: what failed or did not run, then what warns; all tables that have the same are one line."""
    for colour, states, word in (("red", (FAILED, NOT_RUN), ""), ("yellow", (WARNED,), " warns")):
        complaints = [Complaint(v.place, _table(v), v.description, v.state) for v in verdicts if v.state in states]
        for same in common_causes(complaints):
            line = f"{first_and_more(same)}{word}: {same[0].text}"
            console.print(f"[{colour}]{escape(visible(line))}[/{colour}]", highlight=False, soft_wrap=True)


def _table(verdict: CheckVerdict) -> str:
    """Of a check of a table its name; what belongs to a source is told for each source."""
    layer, _, name = verdict.asset
    return name.removeprefix(f"{layer}_") if layer in _OF_TABLES else ""
