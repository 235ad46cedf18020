"""Checks of certificates and keys before a server or a node begins; errors name the file."""

import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
)

from dynamite_fl._regular import read_regular
from dynamite_fl.errors import InvalidInput

_MOST_BYTES = 100_000  # of a file with a key or a certificate
_READABLE_BY_OTHERS = 0o077


def read_key_file(path: Path) -> bytes:
    """Return the content of a file with a key or a certificate.

    Raises:
        InvalidInput: The file cannot be read.
    """
    try:
        return read_regular(path, _MOST_BYTES)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None


def read_private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a private key made by ``make_keys``; warn if others than its owner can read it.

    Raises:
        InvalidInput: The file is not such a key.
    """
    content = read_key_file(path)
    load = load_ssh_private_key if b"OPENSSH" in content else load_pem_private_key
    try:
        key = load(content, password=None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInput(f"{path} is not a private key made by `dynamite keys`")
    if path.stat().st_mode & _READABLE_BY_OTHERS:
        warnings.warn(
            f"{path} can be read by others than its owner, who could pass for this machine: "
            f"run chmod 600 {path}",
            stacklevel=2,
        )
    return key


def read_certificate(path: Path) -> x509.Certificate:
    """Read a certificate made by ``make_keys``.

    Raises:
        InvalidInput: The file is not a certificate, or its time is over or has not begun.
    """
    try:
        certificate = x509.load_pem_x509_certificate(read_key_file(path))
    except ValueError:
        raise InvalidInput(f"{path} is not a certificate made by `dynamite keys`") from None
    now = datetime.now(UTC)
    if now > certificate.not_valid_after_utc:
        raise InvalidInput(
            f"{path} is a certificate that expired on {certificate.not_valid_after_utc:%Y-%m-%d}: "
            "check the clock of this machine, or make new keys with `dynamite keys`"
        )
    if now < certificate.not_valid_before_utc:
        raise InvalidInput(
            f"{path} is a certificate that is valid from "
            f"{certificate.not_valid_before_utc:%Y-%m-%d} on: check the clock of this machine"
        )
    return certificate


def check_pair(certificate: Path, private_key: Path) -> None:
    """Refuse a certificate and a private key that do not belong together.

    Raises:
        InvalidInput: One of the files cannot be used, or they do not belong together.
    """
    public = read_private_key(private_key).public_key()
    if read_certificate(certificate).public_key() != public:
        raise InvalidInput(
            f"{certificate} and {private_key.name} do not belong together: copy both again"
        )


def check_node_keys(node_keys: Mapping[str, bytes]) -> None:
    """Refuse files that are no public keys, and two nodes with the same key.

    Args:
        node_keys: The nodes' public keys in PEM format, by node name.

    Raises:
        InvalidInput: A key cannot be used; the text names the node.
    """
    owners: dict[bytes, str] = {}
    for name, content in node_keys.items():
        try:
            key = load_pem_public_key(content)
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidInput(f"{name}.pub is not a public key made by `dynamite keys`")
        if content in owners:
            raise InvalidInput(
                f"{owners[content]} and {name} have the same public key: make a key for each with "
                "`dynamite keys`"
            )
        owners[content] = name
