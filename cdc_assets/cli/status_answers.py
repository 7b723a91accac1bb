"""What `cdc status` asks of others, all of it at once: Dagster, both Kafka clusters, Connect and the Delta logs.

One after the other each waits for the one before, and the libraries of the next are loaded meanwhile by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.cli.chosen_sources import chosen_sources
from cdc_assets.cli.dagster_news import dagster_news
from cdc_assets.cli.status_spark import foreign_spark
from cdc_assets.errors import CdcAssetsError
from cdc_assets.kinds import experimental_warnings
from cdc_assets.resources.dagster_answers import DagsterAnswers
from cdc_assets.running_dagster.news import RegistryNews
from cdc_assets.volumetry.check_verdicts import CheckVerdict, check_verdicts


@dataclass(frozen=True)
class Answers:
    """As found. `checks_unknown` says why Dagster could not be asked for them; empty where it was. `spark` are rows about a
    server of yours. `experimental`: why nobody should rely on a source's kind yet, by the source."""

    news: RegistryNews | None = None
    tables: list[dict[str, Any]] = field(default_factory=list)
    checks: list[CheckVerdict] = field(default_factory=list)
    checks_unknown: str = ""
    spark: list[dict[str, Any]] = field(default_factory=list)
    experimental: dict[str, str] = field(default_factory=dict)


@contextmanager
def ask(*, tables: bool) -> Iterator[Callable[[], Answers]]:
    """Asks, and yields what waits for the answers. Of a registry that is broken no table is told."""
    with ThreadPoolExecutor(4, thread_name_prefix="status") as pool:
        news, spark = pool.submit(dagster_news), pool.submit(foreign_spark)
        chains = pool.submit(_chains) if tables else None
        checks = pool.submit(ask_checks) if tables else None

        def wait() -> Answers:
            told = news.result()
            if chains is None or checks is None or (told and told.broken):
                return Answers(told, spark=spark.result())
            said, unknown = checks.result()
            return Answers(told, chains.result(), said, unknown, spark.result(), experimental_warnings(chosen_sources()))

        yield wait


def _chains() -> list[dict[str, Any]]:
    from cdc_assets.volumetry.chain_status import chain_status

    return [chain.to_json() for chain in chain_status()]


def ask_checks() -> tuple[list[CheckVerdict], str]:
    """What the checks say, or why nobody knows."""
    try:
        return check_verdicts(DagsterAnswers()), ""
    except CdcAssetsError as error:
        return [], str(error)
