"""Example sources in the embedded PostgreSQL: real data (`world`) and live traffic (`bank`). Loading twice changes nothing."""

from __future__ import annotations

from cdc_assets.stack.site import Site


def load_examples(site: Site) -> None:
    """Load every example source."""
    from cdc_assets.stack.examples import bank, world

    bank.load(site)
    world.load(site)
