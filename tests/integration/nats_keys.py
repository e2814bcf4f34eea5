"""Users, accounts and operators of NATS for tests: nkeys, JWTs, certificates, and servers that ask for them.

A JWT of NATS is three parts, each base64url: header, claims, and the issuer's Ed25519 signature over both.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import json
import os
from pathlib import Path
from typing import Any

import nkeys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from liftlog.real.nats_server import NatsServer


class Key:
    """An nkey; `kind` is "user", "account" or "operator"."""

    def __init__(self, kind: str) -> None:
        prefix = {
            "user": nkeys.PREFIX_BYTE_USER,
            "account": nkeys.PREFIX_BYTE_ACCOUNT,
            "operator": nkeys.PREFIX_BYTE_OPERATOR,
        }[kind]
        self.seed = nkeys.encode_seed(os.urandom(32), prefix).decode()
        self.public = nkeys.from_seed(bytearray(self.seed.encode())).public_key.decode()

    def sign(self, data: bytes) -> bytes:
        return bytes(nkeys.from_seed(bytearray(self.seed.encode())).sign(data))

    def write(self, path: Path) -> Path:
        """The seed as an nkey file."""
        return write_secret(path, self.seed + "\n")


def write_secret(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def make_jwt(subject: Key, issuer: Key, name: str, nats: dict[str, Any]) -> str:
    claims = {"iss": issuer.public, "sub": subject.public, "name": name, "iat": 1_700_000_000}
    claims["nats"] = nats | {"version": 2}
    claims["jti"] = (
        base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
    )
    signed = f"{_part({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_part(claims)}"
    return f"{signed}.{_base64(issuer.sign(signed.encode()))}"


def _part(content: dict[str, Any]) -> str:
    return _base64(json.dumps(content).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def credentials(path: Path, jwt: str, user: Key) -> Path:
    """A credentials file, as nsc writes it."""
    return write_secret(
        path,
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        "NKEY Seed printed below can be used to sign and prove identity.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n",
    )


class Operator:
    """An operator with one account, whose users a server knows through a resolver in memory."""

    def __init__(self) -> None:
        self.key, self.account = Key("operator"), Key("account")
        self.jwt = make_jwt(self.key, self.key, "operator", {"type": "operator"})
        limits = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True}
        limits |= {"conn": -1, "leaf": -1}
        self.account_jwt = make_jwt(
            self.account,
            self.key,
            "account",
            {"type": "account", "limits": limits, "default_permissions": {}},
        )

    def config(self) -> str:
        return (
            f"operator: {self.jwt}\nresolver: MEMORY\n"
            f"resolver_preload: {{ {self.account.public}: {self.account_jwt} }}\n"
        )

    def user(self, path: Path, name: str, deny: tuple[str, ...] = ()) -> Path:
        """The credentials file of a new user, who may not publish or subscribe to what is in `deny`."""
        user = Key("user")
        rules = {"deny": list(deny)} if deny else {}
        nats = {"type": "user", "pub": rules, "sub": rules, "subs": -1, "data": -1, "payload": -1}
        return credentials(path, make_jwt(user, self.account, name, nats), user)


class Authority:
    """A certificate authority with its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a CA for tests")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(constraints, critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, begins_days: float = -1, days: float = 2
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=begins_days))
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    def issue(
        self,
        name: str,
        *,
        begins_days: float = -1,
        days: float = 2,
        host: str = "localhost",
        use: x509.ObjectIdentifier | None = None,
    ) -> tuple[Path, Path]:
        """(certificate, key) for localhost, 127.0.0.1 and whoever shows it as a client; for `host` alone if
        that is another one. Valid from `begins_days` to `days` from now on. `use`: for that alone.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = x509.SubjectAlternativeName(
            [x509.DNSName(host), address] if host == "localhost" else [x509.DNSName(host)]
        )
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = self._builder(subject, key, begins_days, days).add_extension(names, critical=False)
        if use is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        certificate = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        paths = self.folder / f"{name}.pem", self.folder / f"{name}-key.pem"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_secret(paths[1], private.decode())
        return paths


def configured_server(folder: Path, config: str) -> NatsServer:
    """A nats-server, not started yet, with `config` beside its address and port."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "nats.conf"
    path.write_text(config)
    return NatsServer(folder, extra=("--config", str(path)))
