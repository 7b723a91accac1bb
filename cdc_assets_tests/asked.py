"""Tests that take minutes, or a program that no registry has: not collected unless a variable asks for them."""

from __future__ import annotations

import os
from pathlib import Path

_ASKED = {
    "bronze/test_gaps_live.py": "CDC_TEST_GAPS",
    "connectors/test_capture_faults_live.py": "CDC_TEST_FAULTS",
    "connectors/test_mysql_login_live.py": "CDC_TEST_MYSQL",
    "onboarding/test_binlog_routes.py": "CDC_TEST_ONBOARDING_MARIADB CDC_TEST_MYSQL",
    "onboarding/test_onboarding_mysql.py": "CDC_TEST_MYSQL",
    "render/test_acls_live.py": "CDC_TEST_ACLS",
    "render/test_sink_live.py": "CDC_TEST_SINK",
    "resources/mysql/test_activity.py": "CDC_TEST_MYSQL",
    "resources/mysql/test_preflight.py": "CDC_TEST_MYSQL",
    "resources/mysql/test_rows.py": "CDC_TEST_MYSQL",
    "spark/bronze/test_incarnations.py": "CDC_TEST_INCARNATIONS",
    "spark/positions/test_mysql_positions.py": "CDC_TEST_MYSQL",
    "spark/reconcile/test_key_signals_live.py": "CDC_TEST_KEY_SIGNALS",
    "spark/reconcile/test_mysql_live.py": "CDC_TEST_MYSQL",
    "spark/reconcile/test_topic_forms_live.py": "CDC_TEST_TOPIC_ROWS",
    "spark/reconcile/test_topic_rows_live.py": "CDC_TEST_TOPIC_ROWS",
    "spark/reconcile/test_two_step_live.py": "CDC_TEST_TWO_STEP",
    "spark/silver/test_purged_binlog.py": "CDC_TEST_INCARNATIONS",
    "spark/silver/test_stateful_histories.py": "CDC_TEST_STATEFUL",
    "volumetry/test_flow_binlog.py": "CDC_TEST_FLOW_MARIADB CDC_TEST_MYSQL",
}


def is_asked_for(file: Path) -> bool:
    """Whether a test file is to be collected: `file` is its whole path."""
    variables = _ASKED.get(file.relative_to(Path(__file__).parent).as_posix(), "")
    return not variables or any(map(os.environ.get, variables.split()))
