"""Certificates and keys, by which nodes know the server and the server knows its nodes.

``make_keys`` makes a folder for each machine. The folder ``server`` has the server's certificate
and the public keys of the nodes. The folder of a node has its private key and the certificate by
which it recognises the server.
"""

import ipaddress
from collections.abc import Mapping, Sequence
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
)

from dynamite_fl._atomic import write_bytes_atomically
from dynamite_fl._validate import check_folder_name
from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower.key_checks import (
    check_node_keys,
    check_pair,
    read_certificate,
    read_key_file,
    read_private_key,
)

SERVER = "server"  # the name of the server's folder, which no node may have
_TAKEN = (SERVER, "ca.key", "ca.pem")  # what is beside the nodes' folders
_YEARS_VALID = 3


@dataclass(frozen=True)
class ServerKeys:
    """The server's certificate and the keys of the nodes that it serves.

    Attributes:
        certificate: A PEM file with the certificate for the server's names and addresses.
        private_key: A PEM file with the private key of the certificate.
        node_keys: The nodes' public keys in PEM format, by node name.
    """

    certificate: Path
    private_key: Path
    node_keys: Mapping[str, bytes]


@dataclass(frozen=True)
class NodeKeys:
    """A node's keys.

    Attributes:
        ca: A PEM file with the certificate authority that vouches for the server.
        private_key: The node's private key, in the format of OpenSSH.
    """

    ca: Path
    private_key: Path


def make_keys(folder: Path, hosts: Sequence[str], nodes: Sequence[str]) -> list[str]:
    """Make the certificates and keys that are missing in a folder.

    Args:
        folder: The folder for all certificates and keys.
        hosts: The names and addresses by which nodes reach the server. If there are none, an
            existing certificate stays; a new one is for this machine.
        nodes: The names of the nodes.

    Returns:
        The names of the nodes whose keys are new.

    Raises:
        InvalidInput: A name cannot be used.
    """
    for name in nodes:
        check_folder_name("a node's name", name)
        if name.casefold() in _TAKEN:  # some file systems do not tell Server from server
            raise InvalidInput(f"{name!r} cannot be a node's name: {', '.join(_TAKEN)} are taken")
        if name != name.strip() or name.startswith("#"):  # a line of excluded.txt would be read so
            raise InvalidInput(
                f"{name!r} cannot be a node's name: it must not begin with # or with a space, nor "
                "end with a space"
            )
    server = folder / SERVER
    (server / "nodes").mkdir(parents=True, exist_ok=True)
    authority = _authority(folder)
    if hosts or not (server / "certificate.pem").exists():
        _write_certificate(server, authority, hosts or ["localhost", "127.0.0.1"])
    new = [name for name in nodes if not (server / "nodes" / f"{name}.pub").exists()]
    for name in new:
        key = ec.generate_private_key(ec.SECP384R1())
        (folder / name).mkdir(exist_ok=True)
        _write_key(folder / name / "node.key", key, PrivateFormat.OpenSSH)  # SuperNodes need it
        write_bytes_atomically(folder / name / "ca.pem", authority[0].public_bytes(Encoding.PEM))
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        write_bytes_atomically(server / "nodes" / f"{name}.pub", public)
    return new


def read_server_keys(folder: Path) -> ServerKeys:
    """Read the server's folder.

    Raises:
        InvalidInput: The folder lacks a certificate, its key or the nodes' keys, or one of them
            cannot be used.
    """
    public_keys = sorted((folder / "nodes").glob("*.pub"))
    node_keys = {path.stem: read_key_file(path) for path in public_keys}
    keys = ServerKeys(folder / "certificate.pem", folder / "certificate.key", node_keys)
    for path in (keys.certificate, keys.private_key):
        if not path.is_file():
            raise InvalidInput(
                f"{folder} is not the server's folder made by `dynamite keys`: "
                f"it has no {path.name}"
            )
    if not node_keys:
        raise InvalidInput(f"{folder} has no key of a node: make some with `dynamite keys`")
    check_pair(keys.certificate, keys.private_key)
    check_node_keys(node_keys)
    return keys


def read_node_keys(folder: Path) -> NodeKeys:
    """Find the keys in a node's folder.

    Raises:
        InvalidInput: The folder lacks one of them, or one of them cannot be used.
    """
    keys = NodeKeys(folder / "ca.pem", folder / "node.key")
    for path in (keys.ca, keys.private_key):
        if not path.is_file():
            raise InvalidInput(
                f"{folder} is not a node's folder made by `dynamite keys`: it has no {path.name}"
            )
    read_certificate(keys.ca)
    read_private_key(keys.private_key)
    return keys


_Authority = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _authority(folder: Path) -> _Authority:
    """Read the certificate authority in a folder, or make it if it is missing."""
    certificate_file, key_file = folder / "ca.pem", folder / "ca.key"
    if certificate_file.exists() and key_file.exists():
        check_pair(certificate_file, key_file)
        return read_certificate(certificate_file), read_private_key(key_file)
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
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = builder.add_extension(key_id, critical=False).sign(key, hashes.SHA384())
    _write_key(key_file, key)
    write_bytes_atomically(certificate_file, certificate.public_bytes(Encoding.PEM))
    return certificate, key


def _write_certificate(server: Path, authority: _Authority, hosts: Sequence[str]) -> None:
    """Write a new certificate for the server's names and addresses, and its private key."""
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
        .not_valid_before(now - timedelta(days=1))  # clocks may differ
        .not_valid_after(now + timedelta(days=365 * _YEARS_VALID))
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
    """Write a private key to a file that nobody but its owner can read at any time."""
    path.touch(mode=0o600)
    content = key.private_bytes(Encoding.PEM, kind, NoEncryption())
    write_bytes_atomically(path, content)
