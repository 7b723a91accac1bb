"""Manifests for Strimzi, Kafka Connect and Argo CD from the registry; the connectors' configs are those that `cdc apply` uses."""
