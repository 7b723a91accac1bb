"""What the check `table_model` says of each table, by what preflight has found."""

from __future__ import annotations

from pathlib import Path

from cdc_assets.capture.preflight.inspection import Finding
from cdc_assets.defs.capture_assets import model_results
from cdc_assets.defs.check_specs import TABLE_MODEL
from cdc_assets.defs.rhythms import checks_of_counts
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.settings import sources_folder
from cdc_assets_tests.support.declared_mariadb import GOOD, loaded


def test_each_level_is_told_of_its_table_alone(tmp_path: Path) -> None:
    source = loaded(tmp_path, GOOD)
    first, second = source.tables
    keys = TABLE_MODEL.keys(source)

    def told(*found: Finding) -> dict[str, tuple[bool, str, str]]:
        answers = {result.check_name and result.asset_key.path[-1]: result for result in model_results(source, keys, iter(found))}
        return {name: (r.passed, r.severity.value, r.description or "") for name, r in answers.items()}

    wrong = Finding("table_model", "fail", str(first.id), "is misread", "ALTER it")
    right = Finding("table_model", "ok", str(second.id), "is read rightly")
    assert [*told(wrong, right).values()] == [
        (False, "ERROR", "is misread. Mend: ALTER it"),
        (True, "ERROR", "is read rightly"),
    ]
    late = Finding("table_model", "warn", str(first.id), "cannot be told", "wait")
    assert next(iter(told(late, right).values())) == (False, "WARN", "cannot be told. Mend: wait")
    away = Finding("table_model", "warn", "server", "is away", "mend that first")
    assert {(passed, severity) for passed, severity, _ in told(away).values()} == {(False, "WARN")}
    assert {passed for passed, _, _ in told().values()} == {True}


def test_it_is_of_each_table_of_a_mariadb_and_runs_with_every_round(tmp_path: Path) -> None:
    source = loaded(tmp_path, GOOD)
    keys = set(TABLE_MODEL.keys(source))
    made = build_source_defs(source)
    assert keys <= {key for checks in made.asset_checks or () for key in checks.check_keys}
    assert keys <= {*checks_of_counts(source)}
    assert not any(TABLE_MODEL.keys(each) for each in load_sources(sources_folder()))
