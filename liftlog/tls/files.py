"""Files of certificates, as one side uses them: whose it believes, and the one that it shows.

They are read when a context is made, so that whoever replaces them need not restart anything. Errors name the
file and the remedy, and never what is in a key. TLS 1.3 alone is spoken: both ends are ours, and older
versions have what it has left out for good reasons.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from liftlog.exposure import is_exposed
from liftlog.types import LiftlogError

VARIABLES = ("LIFTLOG_CLIENT_TLS_CA", "LIFTLOG_CLIENT_TLS_CERT", "LIFTLOG_CLIENT_TLS_KEY")
"""What a client's environment says in place of its options: CA, certificate, key."""
OPTIONS = ("--tls-ca", "--tls-cert", "--tls-key")
NONE = "none"
"""In place of the CA's file: this client speaks without TLS."""
BINDING_BYTES = 32

_FILE_BYTES_MAX = 1024 * 1024
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----\n.+?\n-----END CERTIFICATE-----", re.DOTALL)

Names = tuple[str, str, str]
"""How errors call the settings: CA, certificate, key."""


class TlsFiles(msgspec.Struct, frozen=True):
    """`ca_file`: whose certificates are believed. `cert_file`, `key_file`: what is shown, if anything is;
    behind the certificate may stand those of the authorities between it and the CA.
    """

    ca_file: Path
    cert_file: Path | None = None
    key_file: Path | None = None
    names: Names = OPTIONS

    @property
    def pair(self) -> tuple[Path | None, Path | None]:
        """What is shown, and its key."""
        return self.cert_file, self.key_file

    @property
    def shown(self) -> str:
        """The own certificate, in words, for errors."""
        return f"our certificate {self.cert_file}" if self.cert_file else "us, who have no certificate"

    def calling(self) -> ssl.SSLContext:
        """To call others, who must show a certificate of the CA for the host that is called. LiftlogError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._believe(context, self.ca_file, self.names[0])
        if self.cert_file is not None:
            self._show(context)
        return context

    def answering(self, callers_ca: Path | None, name: str) -> ssl.SSLContext:
        """To answer callers, who must show a certificate of `callers_ca`, which the setting `name` names;
        None: anybody may call. Raises LiftlogError.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Nobody resumes a session: connections stay for long, and each one is to be a whole handshake.
        context.num_tickets = 0
        self._show(context)
        if callers_ca is not None:
            self._believe(context, callers_ca, name)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def binding(self) -> bytes:
        """What a handshake over TLS is bound to, on the side that answers; see `binding_of`. LiftlogError."""
        assert self.cert_file is not None
        found = _CERTIFICATE.search(_read(self.cert_file, self.names[1]).decode("latin-1").replace("\r", ""))
        if found is None:
            raise LiftlogError(f"{self.names[1]}: {self.cert_file} holds no certificate in PEM")
        return binding_of(ssl.PEM_cert_to_DER_cert(found[0]))

    def _believe(self, context: ssl.SSLContext, path: Path, name: str) -> None:
        try:
            context.load_verify_locations(cadata=_read(path, name).decode("latin-1"))
        except (ssl.SSLError, ValueError):
            raise LiftlogError(
                f"{name}: {path} holds no certificate of a CA; it must be a PEM file with the certificates "
                "of those who are believed"
            ) from None

    def _show(self, context: ssl.SSLContext) -> None:
        assert self.cert_file is not None and self.key_file is not None
        _read(self.cert_file, self.names[1])
        check_private(self.key_file, self.names[2])
        try:
            context.load_cert_chain(self.cert_file, self.key_file, password=_no_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise LiftlogError(
                    f"{self.names[2]}: the key {self.key_file} does not belong to the certificate "
                    f"{self.cert_file}; name the two that were made together"
                ) from None
            raise LiftlogError(
                f"{self.names[1]}: {self.cert_file} and {self.key_file} are no certificate and its key, in "
                "PEM files; openssl x509 -text -noout -in FILE shows a certificate"
            ) from None
        except (OSError, ValueError) as error:
            raise LiftlogError(f"{self.names[2]}: cannot use {self.key_file}: {error}") from None


def binding_of(certificate: bytes) -> bytes:
    """What both sides put into the proofs of the handshake that follows (V6): the certificate that the
    answering side shows, hashed. Who stands in the middle with another one, and passes the proofs on, fails.
    """
    return hashlib.sha256(certificate).digest()


def client_tls(
    ca: Path | str | None, cert: Path | str | None, key: Path | str | None, environment: Mapping[str, str]
) -> TlsFiles | None:
    """How a client speaks TLS, by what it is told, else by its environment; None: it does not.

    Raises LiftlogError for files that make no sense together.
    """
    told = [ca, cert, key]
    names = list(OPTIONS)
    for place, variable in enumerate(VARIABLES):
        if told[place] is None and environment.get(variable):
            told[place], names[place] = environment[variable], variable
    if told[0] is not None and str(told[0]) == NONE:
        return None
    return tls_files([None if one is None else Path(one) for one in told], (names[0], names[1], names[2]))


def tls_files(files: list[Path | None], names: Names) -> TlsFiles | None:
    """CA, certificate and key, as they are said; None if nothing is. Raises LiftlogError."""
    ca, cert, key = files
    if (cert is None) != (key is None):
        said, missing = (names[1], names[2]) if key is None else (names[2], names[1])
        raise LiftlogError(f"{said} is given without {missing}: a certificate and its key go together")
    if ca is None:
        if cert is not None:
            raise LiftlogError(f"{names[1]} is given without {names[0]}: say whose certificates to believe")
        return None
    return TlsFiles(ca, cert, key, names)


def check_private(path: Path, name: str) -> None:
    """A key that other users cannot read; its group may, as what is mounted into containers needs.

    Raises LiftlogError.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise LiftlogError(f"{name}: cannot read {path}: {error.strerror}; check the path") from None
    if stat.S_ISREG(mode) and is_exposed(mode):
        raise LiftlogError(f"{name}: other users may read or change {path}; run: chmod 600 {path}")
    _read(path, name)


def _read(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise LiftlogError(f"{name}: cannot read {path}: {error.strerror}; check the path") from None
    if len(content) > _FILE_BYTES_MAX:
        raise LiftlogError(f"{name}: {path} is too long for a file of certificates")
    return content


def _no_password() -> str:
    raise ValueError("it is encrypted with a password; a key here needs none: openssl pkey -in OLD -out NEW")
