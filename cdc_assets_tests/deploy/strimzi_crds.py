"""Strimzi's own CRDs, made by its generator from its own classes (io.strimzi:api, Apache-2.0): the oracle of what we render."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from cdc_assets.stack.runtimes import java_command
from cdc_assets_tests.support.lake.jvm import locked_jars

_MODEL = "io.strimzi.api.kafka.model"
KINDS = {
    "KafkaConnector": f"{_MODEL}.connector.KafkaConnector",
    "KafkaMirrorMaker2": f"{_MODEL}.mirrormaker2.KafkaMirrorMaker2",
    "KafkaTopic": f"{_MODEL}.topic.KafkaTopic",
    "KafkaUser": f"{_MODEL}.user.KafkaUser",
}


def generate_schemas(folder: Path) -> dict[str, dict[str, Any]]:
    """By kind, the JSON schema of its v1; an unknown key is refused, as by the API server's strict validation. Takes 1 s."""
    command = java_command(
        "io.strimzi.crdgenerator.CrdGenerator",
        class_path=locked_jars("strimzi"),
        heap_mb=256,
        options=["-XX:TieredStopAtLevel=1"],
        arguments_file=folder / "java.args",
    )
    options = ["--target-kube", "1.16+", "--crd-api-version", "v1", "--api-versions", "v1", "--storage-version", "v1", "--yaml"]
    files = {kind: folder / f"{kind}.yaml" for kind in KINDS}
    subprocess.run([*command, *options, *(f"{KINDS[kind]}={file}" for kind, file in files.items())], check=True)
    return {kind: _schema(yaml.safe_load(file.read_text(encoding="utf-8"))) for kind, file in files.items()}


def _schema(crd: dict[str, Any]) -> dict[str, Any]:
    (version,) = [v for v in crd["spec"]["versions"] if v["name"] == "v1"]
    schema = version["schema"]["openAPIV3Schema"]
    _close(schema)
    # Kubernetes' own part, which a CRD says nothing about.
    schema["properties"] |= {"apiVersion": {"const": "kafka.strimzi.io/v1"}, "kind": {"const": crd["spec"]["names"]["kind"]}}
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def _close(schema: dict[str, Any]) -> None:
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    for part in (*schema.get("properties", {}).values(), schema.get("items")):
        if isinstance(part, dict):
            _close(part)
