"""What it means that a TLS handshake failed, and what to do about it.

OpenSSL's reasons are for programmers. Here each one that an operator can bring about has a sentence, which
says on which side something is wrong: with *their* certificate, which we do not believe, or with *ours*,
which they do not.
"""

from __future__ import annotations

import ssl

from liftlog.tls.files import TlsFiles

EXPIRED, NOT_YET, WRONG_USE = 10, 9, 26
UNKNOWN_CA = (2, 18, 19, 20, 21)
OTHER_NAME = (62, 64)
"""Numbers of X509_V_ERR_* in OpenSSL."""

NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL", "PACKET_LENGTH_TOO_LONG")
"""What OpenSSL finds where something else is spoken."""

_ALERTS = {
    "UNKNOWN_CA": "it does not believe {shown}: to it the CA is another one; give both sides the same CA",
    "CERTIFICATE_EXPIRED": "it does not believe {shown}: that has expired; make a new one",
    "CERTIFICATE_REQUIRED": "it wants a certificate of us; name one with {names[1]} and {names[2]}",
    "BAD_CERTIFICATE": "it does not believe {shown}: it is not for the name by which we are called, or not "
    "well made",
    "CERTIFICATE_UNKNOWN": "it does not believe {shown}",
    "UNSUPPORTED_CERTIFICATE": "it does not take {shown}: that must be both for servers and for clients "
    "(extendedKeyUsage)",
    "PROTOCOL_VERSION": "it speaks no TLS 1.3, and older versions are not spoken here",
    "HANDSHAKE_FAILURE": "it refuses the handshake: it has no algorithm in common with us, or wants a "
    "certificate",
}
"""By what the other side said; see the module."""


def why_not(error: ssl.SSLError, files: TlsFiles, believed: str, called: str = "") -> str:
    """Why TLS failed, with the remedy. `believed`: the file of the CA whose certificates we want.
    `called`: the host that we called, if it was us.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _disbelieved(error, believed, called)
    reason = error.reason or ""
    for alert, text in _ALERTS.items():
        if reason.endswith(f"ALERT_{alert}"):
            return text.format(shown=files.shown, names=files.names)
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return f"it shows no certificate, and must show one of a CA in {believed}"
    if reason in NO_TLS:
        return "what it says is no TLS 1.3"
    words = reason.replace("_", " ").lower() or str(error)
    return f"TLS failed: {words}"


def _disbelieved(error: ssl.SSLCertVerificationError, believed: str, called: str) -> str:
    code = error.verify_code
    if code == EXPIRED:
        return "its certificate has expired; a new one is needed, or clocks that agree"
    if code == NOT_YET:
        return "its certificate is not valid yet; set the clocks of both sides"
    if code in UNKNOWN_CA:
        return f"its certificate is of no CA in {believed}; both sides need the same CA"
    if code in OTHER_NAME:
        return f"its certificate is not for {called}, where it is called; one is needed that names it " + (
            "(subjectAltName)"
        )
    if code == WRONG_USE:
        return "its certificate is for another use; it must be for servers and for clients (extendedKeyUsage)"
    return f"its certificate is not believed: {error.verify_message}"
