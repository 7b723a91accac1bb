"""What every job shares of Spark and Delta: sessions, the log, commits and who may make them, quoting."""
