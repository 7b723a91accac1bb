"""Kafka to bronze: committed records of offset ranges, each once, raw."""
