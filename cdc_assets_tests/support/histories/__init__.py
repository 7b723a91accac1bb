"""Histories of a real PostgreSQL, as Debezium reported them, folded in every order that Kafka allows."""
