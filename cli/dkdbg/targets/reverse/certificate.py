"""Store the key and certificate of `dkdbg attach --listen`, so that DKDBG_CONNECT stays valid after a restart."""

from __future__ import annotations

import datetime
import shlex
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.agent.relay import secure_channel
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.repository.folders import create_private, read_private

if TYPE_CHECKING:
    from pathlib import Path

_BEGIN = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The certificate that connecting jobs receive.

    Attributes:
        context: TLS settings with the key and the certificate.
        fingerprint: SHA-256 of the certificate, 64 hexadecimal digits.
        is_new: whether it has just been created.
    """

    context: ssl.SSLContext
    fingerprint: str
    is_new: bool


def load(file: Path) -> Certificate:
    """Return the certificate in a file; create a missing file.

    Raises:
        DkdbgError: the file cannot be read or created, other users can read it, or its contents are invalid.
    """
    hint = f"rm {shlex.quote(str(file))}, and dkdbg creates a new one; jobs then need the newly printed DKDBG_CONNECT"
    known = read_private(file, "key", hint)
    text = known or _made()
    if not known:
        create_private(file, text)
    context = secure_channel.server_context()
    try:
        context.load_cert_chain(file, password="")
        der = ssl.PEM_cert_to_DER_cert(text[text.index(_BEGIN) :])
    except (OSError, ValueError) as error:
        raise DkdbgError(
            f"{file} does not contain a key and its certificate", hint=hint, exit_code=EXIT_CONFLICT
        ) from error
    return Certificate(context=context, fingerprint=secure_channel.fingerprint_of(der), is_new=not known)


def _made() -> str:
    """Return a new key and its certificate, in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dkdbg attach --listen")])
    utc = datetime.timezone.utc
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(
            datetime.datetime(2000, 1, 1, tzinfo=utc)
        )  # jobs compare the fingerprint, not dates
        .not_valid_after(datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=utc))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return (private + certificate.public_bytes(pem)).decode()
