"""Certificates and keys that cannot be used: an error names the file before anything begins."""

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower import key_checks
from dynamite_fl.flower.keys import make_keys, read_node_keys, read_server_keys

RSA = (
    rsa.generate_private_key(65537, 2048)
    .public_key()
    .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "other", [], ["x"])
    make_keys(tmp_path / "keys", [], ["a", "b"])
    return tmp_path / "keys"


def put(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def put_other(path: Path) -> None:
    """Put the file that has the same place among the keys of another training."""
    other = path.parents[1] if path.parent.name == "server" else path.parent
    path.write_bytes((other.parent / "other" / path.relative_to(other)).read_bytes())


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("certificate.pem", put(b"garbage"), r"certificate\.pem is not a certificate made by"),
        ("certificate.key", put(b"garbage"), r"certificate\.key is not a private key made by"),
        ("certificate.key", put_other, r"certificate\.pem and certificate\.key do not belong"),
        ("certificate.pem", put_folder, r"it has no certificate\.pem"),
        ("nodes/a.pub", put(b"garbage"), r"a\.pub is not a public key made by"),
        ("nodes/a.pub", put(b""), r"a\.pub is not a public key made by"),
        ("nodes/a.pub", put(RSA), r"a\.pub is not a public key made by"),
        ("nodes/a.pub", put_pipe, r"a\.pub cannot be read: it is not a regular file"),
        ("nodes/a.pub", put_folder, r"a\.pub cannot be read: Is a directory"),
        ("nodes/a.pub", put(b"x" * 10**6), r"a\.pub cannot be read: it has more than"),
    ],
)
def test_a_servers_key_that_cannot_be_used(keys: Path, name: str, harm: Any, words: str) -> None:
    harm(keys / "server" / name)
    with pytest.raises(InvalidInput, match=words):
        read_server_keys(keys / "server")


def test_two_nodes_with_the_same_key(keys: Path) -> None:
    nodes = keys / "server" / "nodes"
    (nodes / "b.pub").write_bytes((nodes / "a.pub").read_bytes())
    with pytest.raises(InvalidInput, match="a and b have the same public key"):
        read_server_keys(keys / "server")


@pytest.mark.parametrize("name", ["ca.pem", "node.key"])
def test_a_nodes_key_that_cannot_be_used(keys: Path, name: str) -> None:
    (keys / "a" / name).write_bytes(b"garbage")
    with pytest.raises(InvalidInput, match=rf"{name} is not a .* made by `dynamite keys`"):
        read_node_keys(keys / "a")


@pytest.mark.parametrize(("days", "words"), [(1100, "expired on"), (-2, "is valid from")])
def test_a_certificate_whose_time_is_over_or_has_not_begun(
    keys: Path, monkeypatch: pytest.MonkeyPatch, days: int, words: str
) -> None:
    class Clock:
        @staticmethod
        def now(zone: Any) -> datetime:
            return datetime.now(zone) + timedelta(days=days)

    monkeypatch.setattr(key_checks, "datetime", Clock)
    for read in (lambda: read_server_keys(keys / "server"), lambda: read_node_keys(keys / "a")):
        with pytest.raises(InvalidInput, match=f"{words} .* check the clock of this machine"):
            read()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_private_key_that_others_can_read(keys: Path, mode: int) -> None:
    for path in (keys / "a" / "node.key", keys / "server" / "certificate.key"):
        path.chmod(mode)
    with pytest.warns(UserWarning, match=r"node\.key can be read by others.* chmod 600"):
        read_node_keys(keys / "a")
    with pytest.warns(UserWarning, match=r"certificate\.key can be read by others"):
        read_server_keys(keys / "server")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda keys: (keys / "ca.pem").write_bytes(b"bad"), r"ca\.pem is not a certificate"),
        (lambda keys: put_other(keys / "ca.key"), r"ca\.pem and ca\.key do not belong together"),
    ],
)
def test_keys_are_not_added_with_another_authority(keys: Path, harm: Any, words: str) -> None:
    """Nodes would refuse the certificate, and nobody would know why."""
    harm(keys)
    with pytest.raises(InvalidInput, match=words):
        make_keys(keys, ["127.0.0.1"], ["c"])
    assert not (keys / "c").exists()
