"""Kafka as a job reads it: the login of a cluster, and ranges of offsets."""
