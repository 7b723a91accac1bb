"""Argo CD Applications: one per folder of rendered manifests, in the order in which records flow.

Shape: https://argo-cd.readthedocs.io/en/stable/user-guide/application-specification/
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc_assets.errors import RenderError
from cdc_assets.names import kubernetes_name
from cdc_assets.render.deployment import Deployment
from cdc_assets.render.manifest import Manifest

_WAVES = ("users", "topics", "connectors", "mirror")


def applications(folders: Iterable[str], deployment: Deployment) -> dict[str, Manifest]:
    """By the folder that each of them applies.

    Raises:
        RenderError: when the deployment does not say where the manifests are committed.
    """
    argocd = deployment.argocd
    if argocd is None:
        raise RenderError("the deployment has no argocd: say in which repository the manifests are committed")
    found = {}
    for folder in sorted(folders):
        automated = {"prune": argocd.prune, "selfHeal": argocd.self_heal, "allowEmpty": False}
        found[folder] = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {
                "name": kubernetes_name(f"cdc-{folder.replace('/', '-')}"),
                "namespace": argocd.namespace,
                "labels": {"app.kubernetes.io/managed-by": "cdc-assets"},
                "annotations": {"argocd.argoproj.io/sync-wave": str(_WAVES.index(folder.split("/")[0]))},
            },
            "spec": {
                "project": argocd.project,
                "source": {
                    "repoURL": argocd.repository,
                    "targetRevision": argocd.revision,
                    "path": f"{argocd.path}/strimzi/{folder}",
                },
                "destination": {"server": argocd.server, "namespace": deployment.namespace},
                "syncPolicy": {
                    "automated": automated,
                    "syncOptions": ["ServerSideApply=true", "PruneLast=true"],
                    "retry": {"limit": 5, "backoff": {"duration": "10s", "factor": 2, "maxDuration": "5m"}},
                },
            },
        }
    return found
