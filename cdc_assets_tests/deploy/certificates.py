"""An authority of the tests' own: certificates and keys in PEM, in folders as Strimzi's Secrets are mounted."""

from __future__ import annotations

import subprocess
from pathlib import Path

_NO_AUTHORITY = ("-addext", "basicConstraints=critical,CA:FALSE")


class Authority:
    """`<folder>/<user>/user.crt` and `user.key`; of each cluster `<folder>/<cluster>-cluster-ca-cert/ca.crt`."""

    def __init__(self, folder: Path, clusters: tuple[str, ...] = ("core", "lake")) -> None:
        self.folder = folder
        self._key = folder / "ca.key"
        places = [folder / f"{cluster}-cluster-ca-cert" for cluster in clusters]
        for place in places:
            place.mkdir(parents=True)
        self.certificate = places[0] / "ca.crt"
        _openssl("-subj", "/CN=ca", "-keyout", str(self._key), "-out", str(self.certificate))
        for place in places[1:]:
            (place / "ca.crt").write_text(self.certificate.read_text())

    def issue(self, user: str, names: str = "IP:127.0.0.1") -> Path:
        """The folder of a user, who is also a server of these names."""
        place = self.folder / user
        place.mkdir()
        signed = (
            "-CA",
            str(self.certificate),
            "-CAkey",
            str(self._key),
            "-addext",
            f"subjectAltName={names}",
            *_NO_AUTHORITY,
        )
        _openssl("-subj", f"/CN={user}", *signed, "-keyout", str(place / "user.key"), "-out", str(place / "user.crt"))
        (place / "user.key").chmod(0o600)
        both = place / "user.pem"
        both.touch(0o600)
        both.write_text((place / "user.crt").read_text() + (place / "user.key").read_text())
        return place


def _openssl(*arguments: str) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
