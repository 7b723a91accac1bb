"""The lake's tables under names of SQL, read by DuckDB in this process or by the Spark server; nothing is written."""
