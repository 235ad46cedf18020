"""Certificates and node keys: who the server is, and who may take part.

``make_keys`` leaves a folder for each machine: ``server`` with its certificate and the nodes'
public keys, and one for each node with its private key and what it knows the server by.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from dynamite_fl.engine.flower.link import Secrets
from dynamite_fl.files import write_bytes_atomically

SERVER = "server"  # the server's folder, so no node may be called that
_YEARS = 3


@dataclass(frozen=True)
class NodeSecrets:
    """What a node has: by what it knows the server, and its own private key."""

    ca: Path
    key: Path


def make_keys(folder: Path, hosts: Sequence[str], nodes: Sequence[str]) -> list[str]:
    """Make what is missing in a folder; the names of the nodes that are new.

    Args:
        folder: Where all of it goes.
        hosts: Names and addresses of the server, as nodes write them.
        nodes: The nodes' names.

    Raises:
        ValueError: A name cannot be used.
    """
    for name in nodes:
        if name == SERVER or not name.isprintable() or Path(name).name != name:
            raise ValueError(f"{name!r} cannot be a node's name: it becomes a folder's")
    server = folder / SERVER
    (server / "nodes").mkdir(parents=True, exist_ok=True)
    authority = _authority(folder)
    if hosts or not (server / "certificate.pem").exists():
        _certify(server, authority, hosts or ["localhost", "127.0.0.1"])
    new = [name for name in nodes if not (server / "nodes" / f"{name}.pub").exists()]
    for name in new:
        key = ec.generate_private_key(ec.SECP384R1())
        (folder / name).mkdir(exist_ok=True)
        _write_key(folder / name / "node.key", key, PrivateFormat.OpenSSH)  # as SuperNodes want it
        write_bytes_atomically(folder / name / "ca.pem", authority[0].public_bytes(Encoding.PEM))
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        write_bytes_atomically(server / "nodes" / f"{name}.pub", public)
    return new


def server_secrets(folder: Path) -> Secrets:
    """What is in the server's folder.

    Raises:
        ValueError: It is not such a folder.
    """
    keys = {path.stem: path.read_bytes() for path in sorted((folder / "nodes").glob("*.pub"))}
    secrets = Secrets(folder / "certificate.pem", folder / "certificate.key", keys)
    for path in (secrets.certificate, secrets.key):
        if not path.is_file():
            raise ValueError(f"{folder} is no server's folder of dynamite keys: no {path.name}")
    if not keys:
        raise ValueError(f"{folder} has no node's key: dynamite keys makes them")
    return secrets


def node_secrets(folder: Path) -> NodeSecrets:
    """What is in a node's folder.

    Raises:
        ValueError: It is not such a folder.
    """
    secrets = NodeSecrets(folder / "ca.pem", folder / "node.key")
    for path in (secrets.ca, secrets.key):
        if not path.is_file():
            raise ValueError(f"{folder} is no node's folder of dynamite keys: no {path.name}")
    return secrets


_Authority = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _authority(folder: Path) -> _Authority:
    """Who vouches for the server: as it was made before, or new."""
    certificate_file, key_file = folder / "ca.pem", folder / "ca.key"
    if certificate_file.exists() and key_file.exists():
        key = load_pem_private_key(key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{key_file} was not made by dynamite keys")
        return x509.load_pem_x509_certificate(certificate_file.read_bytes()), key
    key = ec.generate_private_key(ec.SECP384R1())
    builder = _builder("dynamite training", "dynamite training", key.public_key())
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = builder.add_extension(own, critical=False).sign(key, hashes.SHA384())
    _write_key(key_file, key)
    write_bytes_atomically(certificate_file, certificate.public_bytes(Encoding.PEM))
    return certificate, key


def _certify(server: Path, authority: _Authority, hosts: Sequence[str]) -> None:
    """A certificate for the server's names and addresses."""
    key = ec.generate_private_key(ec.SECP384R1())
    builder = _builder(hosts[0], "dynamite training", key.public_key())
    builder = builder.add_extension(
        x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority[1].public_key())
    certificate = builder.add_extension(issuer, critical=False).sign(authority[1], hashes.SHA384())
    _write_key(server / "certificate.key", key)
    write_bytes_atomically(server / "certificate.pem", certificate.public_bytes(Encoding.PEM))


def _builder(
    subject: str, issuer: str, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=365 * _YEARS))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(
    path: Path, key: ec.EllipticCurvePrivateKey, kind: PrivateFormat = PrivateFormat.PKCS8
) -> None:
    """A private key that only its owner can read, from the first byte on."""
    path.touch(mode=0o600)
    content = key.private_bytes(Encoding.PEM, kind, NoEncryption())
    write_bytes_atomically(path, content)
