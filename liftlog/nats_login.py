"""How somebody logs in to NATS: credentials files, nkeys, client certificates. Nodes and clients share it.

A URL may carry user and password, or a token. What is safer lies in files: a *credentials file* holds a
user's JWT and the seed of its nkey, as `nsc` writes it; an *nkey file* holds a seed alone. Who has the seed
signs the nonce of the server's INFO, so that nothing secret leaves the machine. A *certificate* proves who we
are while TLS begins, and a *CA file* says whose certificates we believe, instead of the system's.

Files are read at each login: whoever replaces them need not restart anything. Texts of errors name the file,
never what is in it.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from pathlib import Path
from typing import Any

import msgspec

from liftlog.exposure import is_exposed
from liftlog.types import LiftlogError

SECRET_MAX_BYTES = 64 * 1024
_BLOCK = r"-+BEGIN {0}-+\s+(\S+)\s+-+END {0}-+"
_JWT = re.compile(_BLOCK.format("NATS USER JWT"))
_SEED = re.compile(_BLOCK.format("USER NKEY SEED"))


class NatsLogin(msgspec.Struct, frozen=True):
    """Files to log in with. Use `check` once before the first login: it finds what can never work."""

    credentials_file: Path | None = None
    nkey_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    @property
    def wants_tls(self) -> bool:
        """Whoever names certificates never speaks in the clear, whatever the server's INFO says."""
        return self.ca_file is not None or self.cert_file is not None

    @property
    def signs(self) -> bool:
        return self.credentials_file is not None or self.nkey_file is not None

    def check(self, url: str) -> None:
        """Read everything. Raises LiftlogError for files that cannot be used, here or together."""
        if self.credentials_file is not None and self.nkey_file is not None:
            raise LiftlogError(
                f"a NATS credentials file ({self.credentials_file}) and an nkey file ({self.nkey_file}) "
                "are both given; keep one"
            )
        if self.signs and "@" in url:
            raise LiftlogError(
                f"the NATS URL holds a login, and {self.credentials_file or self.nkey_file} is given too; "
                "keep one"
            )
        if self.key_file is not None and self.cert_file is None:
            raise LiftlogError(f"a NATS key file ({self.key_file}) is given without a certificate; add it")
        if self.signs:
            self.proof("")
        if self.wants_tls:
            self.tls_context()

    def proof(self, nonce: str) -> dict[str, str]:
        """What CONNECT has to say for `nonce`: our JWT or public key, and the signature. LiftlogError."""
        if self.credentials_file is not None:
            path = self.credentials_file
            text = _secret(path)
            jwt, seed = _JWT.search(text), _SEED.search(text)
            if jwt is None or seed is None:
                raise LiftlogError(
                    f"{path} is no NATS credentials file: it needs a user's JWT and its seed, as "
                    "'nsc generate creds' writes them"
                )
            return {"jwt": jwt[1], "sig": _signed(path, seed[1], nonce)[1]}
        if self.nkey_file is None:
            return {}
        public, signature = _signed(self.nkey_file, _secret(self.nkey_file).strip(), nonce)
        return {"nkey": public, "sig": signature}

    def tls_context(self) -> ssl.SSLContext:
        """For one handshake. Raises LiftlogError."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise LiftlogError(f"cannot use {self.ca_file} as a NATS CA file: {_reason(error)}") from None
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file, password=_no_password)
            except (OSError, ssl.SSLError, ValueError) as error:
                both = " and ".join(str(path) for path in (self.cert_file, self.key_file) if path is not None)
                raise LiftlogError(
                    f"cannot use {both} as a NATS client certificate: {_reason(error)}"
                ) from None
        return context


NO_LOGIN = NatsLogin()


def refusal(auth_required: bool, login_given: bool, said: str) -> str:
    """Why NATS does not let us in, with the remedy. `said`: its own words, if it had any."""
    if auth_required and not login_given:
        return (
            "it wants a login: put it into the URL (nats://USER:PASSWORD@HOST:PORT or nats://TOKEN@HOST), "
            "or give a credentials file, an nkey file or a client certificate"
        )
    words = f" ({said})" if said else ""
    return f"it refuses this login{words}; check user, password or file, and what that user may do there"


def _secret(path: Path) -> str:
    """A file that other users cannot read. Raises LiftlogError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(SECRET_MAX_BYTES)
    except OSError as error:
        raise LiftlogError(
            f"cannot read the NATS login file {path}: {error.strerror}; check the path"
        ) from None
    if is_exposed(mode):
        raise LiftlogError(
            f"NATS login file {path}: other users may read or change it; run: chmod 600 {path}"
        )
    return content.decode("ascii", "replace")


def _signed(path: Path, seed: str, nonce: str) -> tuple[str, str]:
    """(public key, signature of the nonce) by a seed. Raises LiftlogError."""
    try:
        import nkeys
    except ImportError:
        raise LiftlogError(
            f"{path} needs the library nkeys; install it with: pip install 'liftlog[nkeys]'"
        ) from None
    try:
        pair: Any = nkeys.from_seed(bytearray(seed.encode()))
        public = pair.public_key.decode()
        signature = base64.urlsafe_b64encode(pair.sign(nonce.encode())).rstrip(b"=").decode()
        pair.wipe()
    except Exception as error:  # nkeys and PyNaCl raise errors of many kinds for what is no seed
        raise LiftlogError(
            f"{path} holds no seed of an nkey ({type(error).__name__}); make one with nsc or nk"
        ) from None
    if not public.startswith("U"):
        raise LiftlogError(
            f"{path} holds the seed of another kind of nkey than a user's; those begin with SU"
        )
    return public, signature


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(
        error
    ).__name__


def _no_password() -> str:
    raise ValueError("the key is encrypted with a password; nodes and clients need one that is not")
