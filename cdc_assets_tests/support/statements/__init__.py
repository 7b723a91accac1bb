"""Statements that define tables: of the servers' own test suites and by chance, played on a server and read by its connector."""
