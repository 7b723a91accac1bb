"""An endpoint of an object store on 127.0.0.1: what S3's and GCS's have in common."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from cdc_assets.stack.components.base import Component
from cdc_assets.stack.errors import NotReadyError
from cdc_assets.stack.home import private_folder

if TYPE_CHECKING:
    import httpx

PROBE_BUCKET = "cdc-probe"


class ObjectEndpoint(Component):
    """Objects lie in a local folder, so that they outlive a restart."""

    @override
    def prepare(self) -> None:
        private_folder(self.run)
        private_folder(self.data)

    @cached_property
    def _http(self) -> httpx.Client:
        import httpx

        return httpx.Client(timeout=self.answer_within, trust_env=False)

    def _status(self, method: str, url: str, **arguments: Any) -> int:
        """The status that a request is answered with.

        Raises:
            NotReadyError: it is not answered.
        """
        import httpx

        try:
            return self._http.request(method, url, timeout=self.answer_within, **arguments).status_code
        except httpx.HTTPError as error:
            raise NotReadyError(f"{self.address}: {error}") from error
