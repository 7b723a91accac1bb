"""Tables as they are now: silver and what bronze holds beyond it, for whoever reads Arrow, DuckDB or Spark; nothing is written.

from cdc_assets.silver_now import now, register, register_in_spark
"""

from cdc_assets.silver_now.current_table import CurrentTable, now
from cdc_assets.silver_now.duckdb_views import register
from cdc_assets.silver_now.spark_views import register_in_spark

__all__ = ["CurrentTable", "now", "register", "register_in_spark"]
