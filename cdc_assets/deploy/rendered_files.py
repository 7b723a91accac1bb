"""All files of a target: as text by path, and on disk, where they are written, compared and removed.

A target is a folder per Argo CD Application, in the order in which records flow. `<target>/.cdc-render` lists the files
that are ours. A file that it does not list is somebody else's: never removed, never overwritten.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cdc_assets.capture.connectors.declared_connectors import DeclaredConnector, declared_connectors
from cdc_assets.capture.connectors.setting_overrides import with_public_text
from cdc_assets.deploy.manifest import STAND_IN, Deployment, Manifest, to_yaml
from cdc_assets.deploy.strimzi import kafka_connector, kafka_mirror_maker_2, kafka_topics, kafka_users
from cdc_assets.registry import settings
from cdc_assets.registry.errors import MissingAddressError, RefusalError
from cdc_assets.registry.names import kubernetes_name
from cdc_assets.registry.source_declaration import BaseSource

_WAVES = ("users", "topics", "connectors", "mirror")


def applications(folders: Iterable[str], deployment: Deployment) -> dict[str, Manifest]:
    """An Argo CD Application for each folder, by folder.

    Shape: https://argo-cd.readthedocs.io/en/stable/user-guide/application-specification/

    Raises RefusalError: when the deployment does not say where the manifests are committed.
    """
    argocd = deployment.argocd
    if argocd is None:
        raise RefusalError("the deployment has no argocd: say in which repository the manifests are committed")
    by_folder = {}
    for folder in sorted(folders):
        automated = {"prune": argocd.prune, "selfHeal": argocd.self_heal, "allowEmpty": False}
        by_folder[folder] = {
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
    return by_folder


Target = Literal["strimzi", "connect", "argocd"]
TARGETS: tuple[Target, ...] = ("strimzi", "connect", "argocd")


def render(target: Target, sources: Sequence[BaseSource], deployment: Deployment) -> dict[str, str]:
    """The target's files. Raises RefusalError: when the registry refers to a variable that the deployment does not give."""
    if target == "connect":
        connectors = connectors_to_render(sources, deployment, secrets_folder=deployment.secrets_folder)
        # As `POST /connectors` takes them.
        bodies = {
            f"connect/{c.cluster}/{c.name}.json": {"name": c.name, "config": dict(sorted(c.config.items()))} for c in connectors
        }
        return {path: json.dumps(body, indent=2, ensure_ascii=False) + "\n" for path, body in bodies.items()}
    strimzi = _strimzi(sources, deployment)
    if target == "strimzi":
        return strimzi
    folders = {path.removeprefix("strimzi/").rsplit("/", 1)[0] for path in strimzi}
    return {
        f"argocd/{folder.replace('/', '-')}.yaml": to_yaml([app]) for folder, app in applications(folders, deployment).items()
    }


def connectors_to_render(
    sources: Sequence[BaseSource], deployment: Deployment, *, secrets_folder: str = STAND_IN
) -> list[DeclaredConnector]:
    """The connectors as `cdc apply` has them, with the deployment's addresses and nothing of this machine's."""
    try:
        with settings.only(deployment.variables(secrets_folder=secrets_folder)):
            return [replace(c, config=with_public_text(c.config)) for c in declared_connectors(sources)]
    except MissingAddressError as error:
        raise RefusalError(
            f"the registry refers to {error.name}, which the deployment does not give: add it under `environment`"
        ) from error


def _strimzi(sources: Sequence[BaseSource], deployment: Deployment) -> dict[str, str]:
    connectors = connectors_to_render(sources, deployment)
    files: dict[str, str] = {}
    for source in sources:
        if own := source.captured:
            files[f"strimzi/topics/{own.name}.yaml"] = to_yaml(kafka_topics(own, deployment))
    mirrors = [c for c in connectors if c.role == "mirror"]
    _refuse_other_mirror([c.source for c in mirrors], deployment)
    for connector in connectors:
        folder = "connectors" if connector.role == "capture" else "mirror"
        if connector.role in ("checkpoints", "heartbeats") and deployment.mirror == "mirrormaker2":
            raise RefusalError(f"{connector.name}: one KafkaMirrorMaker2 for all sources has none; set `mirror: connector`")
        if connector.role != "mirror" or deployment.mirror == "connector":
            files[f"strimzi/{folder}/{connector.name}.yaml"] = to_yaml([kafka_connector(connector, deployment)])
    if mirrors and deployment.mirror == "mirrormaker2":
        files["strimzi/mirror/cdc-mirror.yaml"] = to_yaml([kafka_mirror_maker_2(mirrors, deployment)])
    if deployment.authentication == "tls":
        for user in kafka_users(sources, deployment):
            files[f"strimzi/users/{user['metadata']['name']}.yaml"] = to_yaml([user])
    return dict(sorted(files.items()))


def _refuse_other_mirror(sources: Sequence[BaseSource], deployment: Deployment) -> None:
    # Assets and checks look for the mirror that the registry names.
    other = [source.name for source in sources if source.managed_by == "gitops" and source.mirror.resource != deployment.mirror]
    if other:
        raise RefusalError(
            f"source {', '.join(other)}: mirror.resource is not the deployment's `mirror: {deployment.mirror}`; declare "
            f"mirror: {{resource: {deployment.mirror}}} there, or change the deployment"
        )


_LIST = ".cdc-render"
_NO_NEWLINE = "\n\\ No newline at end of file\n"


@dataclass(frozen=True)
class FileChange:
    """What would become of one file; `before` None: absent, `after` None: removed."""

    path: str
    before: str | None
    after: str | None

    @property
    def action(self) -> Literal["create", "change", "remove"]:
        """What happens to the file, in one word."""
        if self.after is None:
            return "remove"
        return "create" if self.before is None else "change"

    def diff(self) -> str:
        """As `git apply` takes it."""
        return file_diff(self.path, self.before, self.after)


def file_diff(path: str, before: str | None, after: str | None, out: str = "") -> str:
    """A unified diff of one file, in the folder `out`."""
    path = f"{out}/{path}" if out else path
    lines = difflib.unified_diff(
        _lines(before or ""),
        _lines(after or ""),
        f"a/{path}" if before is not None else "/dev/null",
        f"b/{path}" if after is not None else "/dev/null",
    )
    text = "".join(line if line.endswith("\n") else f"{line}{_NO_NEWLINE}" for line in lines)
    mode = "" if before is not None and after is not None else f"{'new' if before is None else 'deleted'} file mode 100644\n"
    return f"diff --git a/{path} b/{path}\n{mode}{text}"


def changes(out: Path, target: str, wanted: Mapping[str, str]) -> list[FileChange]:
    """What stands between the folder and the wanted files, by path.
    Raises RefusalError: when a wanted file is there already, is another one, and is not ours."""
    ours = _ours(out, target)
    file_changes = []
    for path, text in sorted({**with_list(target, wanted)}.items()):
        before = _read(out / path)
        if before == text:
            continue
        if before is not None and path not in ours and not path.endswith(_LIST):
            raise RefusalError(f"{out / path} is there, and was not written by `cdc render`: move it away, or render elsewhere")
        file_changes.append(FileChange(path, before, text))
    for path in sorted(ours - set(wanted)):
        before = _read(out / path)
        if before is not None:
            file_changes.append(FileChange(path, before, None))
    return file_changes


def apply(out: Path, found: list[FileChange]) -> None:
    """Make the changes. Whenever it ends, each of our files is in the list, so that a later render knows it.
    Raises RefusalError: a file cannot be written."""
    lists = [change for change in found if change.path.endswith(f"/{_LIST}")]
    both = [
        replace(change, after="".join(sorted({*_lines(change.before or ""), *_lines(change.after or "")}))) for change in lists
    ]
    try:
        for change in (*both, *(change for change in found if change not in lists), *lists):
            file = out / change.path
            if change.after is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(change.after, encoding="utf-8")
    except OSError as error:
        raise RefusalError(f"{error.filename or out}: {error.strerror}: no manifest can be written there") from error


def with_list(target: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """The files and the list of them."""
    listed = "".join(f"{path.removeprefix(f'{target}/')}\n" for path in sorted(wanted))
    return {**wanted, f"{target}/{_LIST}": listed}


def _ours(out: Path, target: str) -> set[str]:
    root = (out / target).resolve()
    listed = (_read(out / target / _LIST) or "").splitlines()
    # The list is a committed file: whatever it says, nothing outside of its folder is touched.
    return {f"{target}/{line}" for line in listed if line and (root / line).resolve().is_relative_to(root)}


def _read(file: Path) -> str | None:
    try:
        # Whatever somebody has put into it differs, and is shown.
        return file.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusalError(f"{file}: {error.strerror}: name a folder by --out, or move away what is in the way") from error


def _lines(text: str) -> list[str]:
    # At line feeds alone, as git has them: `splitlines` ends a line at a dozen other characters too.
    return re.findall(r"[^\n]*\n|[^\n]+", text)
