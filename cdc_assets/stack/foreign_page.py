"""What a server of the stack refuses unseen: another name of the host (DNS rebinding), and pages of elsewhere."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.datastructures import Headers

# With any port: of a tunnel by ssh it is another one. The whole 127.0.0.0/8 is this machine.
_HERE = re.compile(r"(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d{1,5})?")
Refused = tuple[HTTPStatus, str]


def foreign(headers: Headers) -> Refused | None:
    """The name in the address must be this machine's own, and the page that asks must come from that address."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if not _HERE.fullmatch(host):
        return HTTPStatus.FORBIDDEN, "This server answers by the name 127.0.0.1 or localhost alone.\n"
    if origin not in (None, f"http://{host}", f"https://{host}"):
        return HTTPStatus.FORBIDDEN, "This server does nothing for a page of another origin.\n"
    return None
