"""What strangers can make the server do: next to nothing."""

import resource
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import (
    generate_key_pairs,
    public_key_to_bytes,
    sign_message,
)
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE

from dynamite_fl.engine.flower.gate import MOST_BYTES
from dynamite_fl.engine.flower.keys import make_keys, node_secrets, server_secrets
from dynamite_fl.engine.flower.link import Link

MEGABYTE = 2**20
HUGE = 300  # megabytes
LITTLE = 60  # megabytes, with what the test itself takes


@dataclass
class Door:
    """A server with TLS that knows one node, and how to knock at it."""

    port: int
    trusted: ssl.SSLContext
    key: Any

    def connected(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        return self.trusted.wrap_socket(plain, server_hostname="127.0.0.1")

    def headers(self, key: Any) -> dict[str, str]:
        """As a node with this key signs its requests."""
        stamp = now().isoformat()
        return {
            "content-type": PROTOBUF_MEDIA_TYPE,
            "flwr-public-key": b64encode(public_key_to_bytes(key.public_key())).decode(),
            "flwr-timestamp": stamp,
            "flwr-signature": b64encode(sign_message(key, stamp.encode())).decode(),
        }

    def post(self, headers: dict[str, str], content: bytes | Iterator[bytes]) -> httpx.Response:
        url = f"https://127.0.0.1:{self.port}/v1/fleet/activate-node"
        return httpx.post(url, headers=headers, content=content, verify=self.trusted, timeout=20)

    def is_open(self) -> bool:
        """Whether the node that it knows gets in."""
        public = public_key_to_bytes(self.key.public_key())
        asked = ActivateNodeRequest(public_key=public, heartbeat_interval=10.0)
        answer = self.post(self.headers(self.key), asked.SerializeToString())
        return answer.status_code == 200

    def flood(self, first_lines: bytes) -> bytes:
        """What the server answers to some lines; much data follows, whether it is read or not."""
        part = b"x" * MEGABYTE
        with self.connected() as wrapped:
            wrapped.sendall(first_lines)
            answer = wrapped.recv(4096) if first_lines.endswith(b"\r\n\r\n") else b""
            with suppress(OSError):  # it may have hung up
                for _ in range(HUGE):
                    wrapped.sendall(part)
                answer = answer or wrapped.recv(4096)
        return answer


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    make_keys(tmp_path, ["127.0.0.1"], ["known"])
    trusted = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    key = load_ssh_private_key(node_secrets(tmp_path / "known").key.read_bytes(), None)
    with Link("127.0.0.1", 0, server_secrets(tmp_path / "server")) as link:
        yield Door(link.port, trusted, key)


def stranger() -> ec.EllipticCurvePrivateKey:
    key: ec.EllipticCurvePrivateKey = generate_key_pairs()[0]
    return key


def megabytes_held() -> float:
    """The most memory that this process, in which the server is, has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_a_stranger_is_refused_unread(door: Door) -> None:
    before = megabytes_held()
    assert door.post({}, b"\xff" * 99).status_code == 401
    assert door.post(door.headers(stranger()), b"\xff" * 99).status_code == 401
    assert door.post({**door.headers(door.key), "flwr-signature": "AAAA"}, b"").status_code == 401
    forged = door.headers(stranger()) | {
        "flwr-public-key": door.headers(door.key)["flwr-public-key"]
    }
    assert door.post(forged, b"").status_code == 401
    old = {**door.headers(door.key), "flwr-timestamp": "2020-01-01T00:00:00+00:00"}
    assert door.post(old, b"").status_code == 401
    for signed in ({}, door.headers(stranger())):
        lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
        start = "POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\n"
        for length in (f"Content-Length: {HUGE}", "Transfer-Encoding: chunked"):
            answer = door.flood(f"{start}{lines}{length}\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 401 ")
    assert megabytes_held() - before < LITTLE
    assert door.is_open()


def test_headers_have_an_end(door: Door) -> None:
    before = megabytes_held()
    door.flood(b"GET / HTTP/1.1\r\nX: ")
    assert megabytes_held() - before < LITTLE
    assert door.is_open()


def test_a_node_that_sends_too_much_at_once(door: Door) -> None:
    before = megabytes_held()
    answer = door.post(door.headers(door.key), b"x" * (MOST_BYTES + 1))
    assert answer.status_code == 413
    assert f"at most {MOST_BYTES:,} bytes" in answer.text
    parts = (b"x" * MEGABYTE for _ in range(2))
    assert door.post(door.headers(door.key), parts).status_code == 413  # of unknown length
    assert megabytes_held() - before < LITTLE
    assert door.is_open()
