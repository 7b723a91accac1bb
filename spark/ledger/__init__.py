"""The event ledger: every committed event of a table, by event-time window and op, in each link and with its fate."""
