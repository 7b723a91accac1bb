"""What `cdc status` asks of others, all of it at once: Dagster, both Kafka clusters, Connect and the Delta logs.

One after the other each waits for the one before, and the libraries of the next are loaded meanwhile by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_assets.cli.chosen_sources import chosen_sources
from cdc_assets.cli.dagster_news import dagster_news
from cdc_assets.cli.status_spark import foreign_spark, long_work
from cdc_assets.errors import CdcAssetsError
from cdc_assets.kinds import experimental_warnings
from cdc_assets.resources.dagster_answers import DagsterAnswers
from cdc_assets.running_dagster.news import RegistryNews
from cdc_assets.volumetry.check_verdicts import CheckVerdict, check_verdicts
from cdc_assets.volumetry.rows_compared import RowsCompared, last_comparisons


@dataclass(frozen=True)
class Answers:
    """As found. `checks_unknown` says why Dagster could not be asked for them; empty where it was.

    `compared`: by silver's asset, when its rows were compared last. `spark` are rows about a server of yours. `experimental`: why
    nobody should rely on a source's kind yet, by the source.
    """

    news: RegistryNews | None = None
    tables: list[dict[str, Any]] = field(default_factory=list)
    checks: list[CheckVerdict] = field(default_factory=list)
    checks_unknown: str = ""
    compared: Mapping[tuple[str, ...], RowsCompared] = field(default_factory=dict)
    spark: list[dict[str, Any]] = field(default_factory=list)
    experimental: dict[str, str] = field(default_factory=dict)


@contextmanager
def ask(*, tables: bool) -> Iterator[Callable[[], Answers]]:
    """Asks, and yields what waits for the answers. Of a registry that is broken no table is told."""
    with ThreadPoolExecutor(4, thread_name_prefix="status") as pool:
        news, spark = pool.submit(dagster_news), pool.submit(_spark)
        chains = pool.submit(_chains) if tables else None
        checks = pool.submit(ask_checks) if tables else None

        def wait() -> Answers:
            told = news.result()
            if chains is None or checks is None or (told and told.broken):
                return Answers(told, spark=spark.result())
            return replace(
                checks.result(),
                news=told,
                tables=chains.result(),
                spark=spark.result(),
                experimental=experimental_warnings(chosen_sources()),
            )

        yield wait


def _spark() -> list[dict[str, Any]]:
    return [*foreign_spark(), *long_work()]


def _chains() -> list[dict[str, Any]]:
    from cdc_assets.volumetry.chain_status import chain_status

    return [chain.to_json() for chain in chain_status()]


def ask_checks() -> Answers:
    """What the checks say and when rows were compared, or why nobody knows."""
    dagster = DagsterAnswers()
    try:
        checks = check_verdicts(dagster)
        return Answers(checks=checks, compared=last_comparisons(dagster, checks))
    except CdcAssetsError as error:
        return Answers(checks_unknown=str(error))
