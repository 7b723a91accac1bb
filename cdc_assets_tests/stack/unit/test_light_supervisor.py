"""The supervisor starts Spark's server without PySpark in itself: it lives as long as the stack, and would keep all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from pathlib import Path
from cdc_assets.stack import supervisor
from cdc_assets.stack.components.spark_connect_server import SparkConnect
from cdc_assets.stack.home import Home
from cdc_assets.stack.loopback import assign
from cdc_assets.stack.component import Site

server = SparkConnect(Site(Home(Path(sys.argv[1])).create(), assign(("spark-connect",), {})))
server.prepare()
print("org.apache.spark.sql.connect.service.SparkConnectServer" in server.command(), bool(server.environment()))
print([name for name in ("pyspark", "numpy", "pandas", "pyarrow", "deltalake", "dagster", "boto3") if name in sys.modules])
"""


def test_to_start_spark_imports_nothing_of_it(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["True True", "[]"]
