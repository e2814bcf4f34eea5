"""A CA and certificates for a cluster on this machine, made with the program openssl (`liftlog dev --tls`).

They are as docs/security.md has an operator make them. What is there and still good stays.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from liftlog.tls.files import TlsFiles
from liftlog.tls.looking import WARN_DAYS, look
from liftlog.types import LiftlogError

DAYS = 365
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
TIMEOUT_S = 30.0


class Authority:
    """A CA, whose files lie in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca_file = folder / "ca.pem"
        self._key = folder / "ca.key"

    def ensure(self) -> None:
        """See to the CA itself. Raises LiftlogError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.ca_file.exists() and self._key.exists()):
            self._openssl(
                *("req", "-x509", *KEY, "-keyout", self._key, "-out", self.ca_file),
                *("-days", 10 * DAYS, "-subj", "/CN=CA of a local liftlog cluster"),
            )
            self._key.chmod(0o600)

    def files(self, name: str) -> TlsFiles:
        """Where the certificate of this name lies, and its key."""
        return TlsFiles(self.ca_file, self.folder / f"{name}.pem", self.folder / f"{name}.key")

    def issue(self, name: str, host: str, now_s: float) -> TlsFiles:
        """See to a certificate for the IP address `host`, and localhost, that is good for a while from
        `now_s` on. Raises LiftlogError.
        """
        files = self.files(name)
        assert files.cert_file is not None and files.key_file is not None
        if files.cert_file.exists() and files.key_file.exists():
            try:
                if look(files, host, files.ca_file).days_left(now_s) > WARN_DAYS:
                    return files
            except LiftlogError:
                pass
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        self._openssl(
            *("req", "-new", *KEY, "-keyout", files.key_file, "-out", request, "-subj", f"/CN={name}")
        )
        files.key_file.chmod(0o600)
        extensions.write_text(f"subjectAltName = IP:{host}, DNS:localhost\n")
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca_file, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", DAYS, "-extfile", extensions, "-out", files.cert_file),
        )
        request.unlink()
        extensions.unlink()
        return files

    def _openssl(self, *words: object) -> None:
        command = ["openssl", *map(str, words)]
        try:
            done = subprocess.run(
                command, capture_output=True, check=False, timeout=TIMEOUT_S, start_new_session=True
            )
        except FileNotFoundError:
            raise LiftlogError(
                "the program openssl makes the certificates, and is not there; install it "
                "(apt-get install openssl), or leave TLS out"
            ) from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LiftlogError(f"cannot run openssl: {error}") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise LiftlogError(f"openssl {command[1]} failed in {self.folder}: {said}")
