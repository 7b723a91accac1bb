"""Checks that are red or warn, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape

from cdc_assets.shown_text import visible
from cdc_assets.volumetry.check_verdicts import FAILED, NOT_RUN, WARNED, CheckVerdict


def is_red(verdicts: Iterable[CheckVerdict]) -> bool:
    """Whether one failed, or did not run although all were asked for."""
    return any(each.state in (FAILED, NOT_RUN) for each in verdicts)


def print_verdicts(console: Console, verdicts: Sequence[CheckVerdict]) -> None:
    """A line for each check that failed or did not run; one for all tables of which a check warns in the same words."""
    for each in verdicts:
        if is_red([each]):
            console.print(
                f"[red]{escape(each.place)}: {escape(visible(each.description))}[/red]", highlight=False, soft_wrap=True
            )
    warned: dict[tuple[str, str], list[str]] = {}
    for each in verdicts:
        if each.state == WARNED:
            warned.setdefault((each.name, each.description), []).append("/".join(each.asset))
    for (name, description), assets in warned.items():
        more = f" and {len(assets) - 1} more" if len(assets) > 1 else ""
        told = f"{assets[0]}{more} {name} warns: {description}"
        console.print(f"[yellow]{escape(visible(told))}[/yellow]", highlight=False, soft_wrap=True)
