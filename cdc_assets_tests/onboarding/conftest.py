"""What takes minutes is run when it is asked for: every route of a MariaDB and of a MySQL, killed, resumed and rolled back."""

from __future__ import annotations

import os

collect_ignore = []
if not (os.environ.get("CDC_TEST_ONBOARDING_MARIADB") or os.environ.get("CDC_TEST_MYSQL")):
    collect_ignore.append("test_binlog_routes.py")
if not os.environ.get("CDC_TEST_MYSQL"):
    collect_ignore.append("test_onboarding_mysql.py")
