"""A Connect worker that has Strimzi's Secrets as folders, for `${secrets:…}`."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import override

from cdc_assets_tests.support.servers.quick_worker import QuickWorker


class SecretsWorker(QuickWorker):
    """Its provider `secrets` reads folders."""

    def link(self, place: str, secrets: Path) -> None:
        """A folder of its own that shows these secrets."""
        link = self.run / place
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(secrets)

    @override
    def _properties(self) -> dict[str, str]:
        plain = super()._properties()
        return {
            **plain,
            "config.providers": plain["config.providers"] + ",secrets",
            "config.providers.secrets.class": plain["config.providers.dir.class"],
        }
