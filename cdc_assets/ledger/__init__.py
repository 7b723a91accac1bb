"""The event ledger for people and checks: read from its Delta table, judged, drawn. What counts is spark.ledger."""
