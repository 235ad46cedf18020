"""Certificates and keys as files."""

from pathlib import Path

import pytest

from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower.key_checks import read_private_key
from dynamite_fl.flower.keys import make_keys, read_node_keys, read_server_keys


def test_keys_are_made_once_and_only_their_owner_can_read_them(tmp_path: Path) -> None:
    assert make_keys(tmp_path, ["example.org"], ["a", "b"]) == ["a", "b"]
    before = (tmp_path / "a" / "node.key").read_bytes()
    assert make_keys(tmp_path, [], ["b", "c"]) == ["c"]
    assert (tmp_path / "a" / "node.key").read_bytes() == before
    for key in tmp_path.rglob("*.key"):
        assert key.stat().st_mode & 0o077 == 0
    assert sorted(read_server_keys(tmp_path / "server").node_keys) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["server", "Server", "ca.key", "ca.pem"])
def test_names_that_are_taken(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be a node's name"):
        make_keys(tmp_path, [], [name])


@pytest.mark.parametrize("name", ["#a", " a", "a "])
def test_names_that_a_line_of_excluded_nodes_cannot_hold(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="must not begin with # or with a space"):
        make_keys(tmp_path, [], [name])


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", "a\nb", "a" * 300])
def test_names_that_no_node_can_have(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "keys"
    with pytest.raises(InvalidInput, match=r"a node's name is .*it must be the name of a folder"):
        make_keys(folder, [], [name])
    assert list(tmp_path.iterdir()) == []


def test_folders_without_keys(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"it has no certificate\.pem"):
        read_server_keys(tmp_path)
    with pytest.raises(InvalidInput, match=r"it has no ca\.pem"):
        read_node_keys(tmp_path)
    make_keys(tmp_path, [], [])
    with pytest.raises(InvalidInput, match="has no key of a node"):
        read_server_keys(tmp_path / "server")


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAA"])
def test_a_private_key_that_is_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "node.key"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="is not a private key made by `dynamite keys`"):
        read_private_key(path)


def test_private_keys_of_nodes_and_of_the_authority(tmp_path: Path) -> None:
    make_keys(tmp_path, [], ["a"])
    for path in (tmp_path / "a" / "node.key", tmp_path / "ca.key"):
        assert read_private_key(path).curve.name == "secp384r1"
