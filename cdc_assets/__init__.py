"""A change-data-capture lakehouse as Dagster assets: connector, topic, mirror, bronze, silver, backup."""
