"""Whether a connector that git has deployed is what the registry declares, though an operator writes some of it otherwise.

| on Connect | declared here | why it is the same |
|---|---|---|
| `${secrets:kafka/cdc-secrets:shop}` | `${dir:/secrets:shop}` | one secret, by the provider that the worker has |
| addresses and logins of Kafka clients | others, or none | the deployment's, not the registry's |
| `^(?:a|b|c)$` | `a,b` | a KafkaMirrorMaker2 carries all sources' topics in one pattern |
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\{[^:}]+:(?:[^:}]*:)?([^:}]+)\}")
_CLIENT = r"(source\.cluster|target\.cluster|schema\.history\.internal(\.\w+)?|(consumer|producer|admin)\.override)"
_OF_THE_DEPLOYMENT = re.compile(rf"{_CLIENT}\.(bootstrap\.servers|security\.protocol|ssl\..+|sasl\..+)")


def find_differing_keys(declared: Mapping[str, str], deployed: Mapping[str, str], *, shared: bool) -> list[str]:
    """`shared`: other sources' topics may be in it too."""
    keys = sorted({*declared, *deployed})
    return [key for key in keys if not _same(key, declared.get(key), deployed.get(key), shared=shared)]


def _same(key: str, declared: str | None, deployed: str | None, *, shared: bool) -> bool:
    if declared == deployed or _OF_THE_DEPLOYMENT.fullmatch(key):
        return True
    if declared is None or deployed is None:
        return False
    if shared and key == "topics":
        return _carries(deployed, declared)
    ours, theirs = (_REFERENCE.sub(r"${\1}", text) for text in (declared, deployed))
    return ours == theirs


def _carries(pattern: str, topics: str) -> bool:
    """Whether the pattern names each of these topics: both are as we render them, `a\\.b` for topic a.b."""
    inner = re.fullmatch(r"\^\(\?:(.*)\)\$", pattern)
    return inner is not None and set(topics.split(",")) <= set(inner[1].split("|"))
