"""Requests of strangers, which the server refuses without reading them."""

import resource
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
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

from dynamite_fl.flower.auth import MAX_REQUEST_BYTES
from dynamite_fl.flower.keys import make_keys, read_node_keys, read_server_keys
from dynamite_fl.flower.superlink import SuperLink
from tests.processes import HANG_SECONDS

MEGABYTE = 2**20
FLOOD_MEGABYTES = 300
ALLOWED_MEGABYTES = 60  # what the test itself needs included


@dataclass
class Server:
    """A server with TLS that knows one node."""

    port: int
    trusted: ssl.SSLContext
    key: Any

    @staticmethod
    def at(port: int, folder: Path) -> "Server":
        """Return the server at a port whose keys, and those of the node ``known``, are there."""
        trusted = ssl.create_default_context(cafile=folder / "ca.pem")
        private = read_node_keys(folder / "known").private_key.read_bytes()
        return Server(port, trusted, load_ssh_private_key(private, None))

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=HANG_SECONDS)
        return self.trusted.wrap_socket(plain, server_hostname="127.0.0.1")

    def headers(self, key: Any) -> dict[str, str]:
        """Return the headers with which a node that has this key signs a request."""
        stamp = now().isoformat()
        return {
            "content-type": PROTOBUF_MEDIA_TYPE,
            "flwr-public-key": b64encode(public_key_to_bytes(key.public_key())).decode(),
            "flwr-timestamp": stamp,
            "flwr-signature": b64encode(sign_message(key, stamp.encode())).decode(),
        }

    def post(
        self, headers: dict[str, str], content: bytes | Iterator[bytes], url: str | None = None
    ) -> httpx.Response:
        return httpx.post(
            url or f"https://127.0.0.1:{self.port}/v1/fleet/activate-node",
            headers=headers,
            content=content,
            verify=self.trusted,
            timeout=HANG_SECONDS,
        )

    def admits_its_node(self) -> bool:
        """Tell whether the node that the server knows is let in."""
        public = public_key_to_bytes(self.key.public_key())
        request = ActivateNodeRequest(public_key=public, heartbeat_interval=10.0)
        answer = self.post(self.headers(self.key), request.SerializeToString())
        return answer.status_code == 200

    def flood(self, first_lines: bytes) -> bytes:
        """Send some lines and then much data, and return the server's answer."""
        part = b"x" * MEGABYTE
        with self.connect() as connection:
            connection.sendall(first_lines)
            answer = connection.recv(4096) if first_lines.endswith(b"\r\n\r\n") else b""
            with suppress(OSError):  # the server may have closed the connection
                for _ in range(FLOOD_MEGABYTES):
                    connection.sendall(part)
                answer = answer or connection.recv(4096)
        return answer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    make_keys(tmp_path, ["127.0.0.1"], ["known"])
    with SuperLink("127.0.0.1", 0, read_server_keys(tmp_path / "server")) as link:
        yield Server.at(link.port, tmp_path)


def strange_key() -> ec.EllipticCurvePrivateKey:
    key: ec.EllipticCurvePrivateKey = generate_key_pairs()[0]
    return key


def peak_megabytes() -> float:
    """Return the most memory that this process, which runs the server, has ever used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_a_request_of_a_stranger_is_not_read(server: Server) -> None:
    before = peak_megabytes()
    assert server.post({}, b"\xff" * 99).status_code == 401
    assert server.post(server.headers(strange_key()), b"\xff" * 99).status_code == 401
    assert (
        server.post({**server.headers(server.key), "flwr-signature": "AAAA"}, b"").status_code
        == 401
    )
    forged = server.headers(strange_key()) | {
        "flwr-public-key": server.headers(server.key)["flwr-public-key"]
    }
    assert server.post(forged, b"").status_code == 401
    old = {**server.headers(server.key), "flwr-timestamp": "2020-01-01T00:00:00+00:00"}
    assert server.post(old, b"").status_code == 401
    for signed in ({}, server.headers(strange_key())):
        lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
        start = "POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\n"
        for length in (f"Content-Length: {FLOOD_MEGABYTES}", "Transfer-Encoding: chunked"):
            answer = server.flood(f"{start}{lines}{length}\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 401 ")
    assert peak_megabytes() - before < ALLOWED_MEGABYTES
    assert server.admits_its_node()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-900, "900 s behind the server's"), (600, "600 s ahead of the server's"), (20, "20 s ahead")],
)
def test_a_node_whose_clock_is_wrong_hears_so(server: Server, seconds: int, words: str) -> None:
    stamp = (now() + timedelta(seconds=seconds)).isoformat()
    signature = b64encode(sign_message(server.key, stamp.encode())).decode()
    headers = {**server.headers(server.key), "flwr-timestamp": stamp, "flwr-signature": signature}
    answer = server.post(headers, b"")
    assert answer.status_code == 401
    assert words in answer.text
    assert "set both clocks right" in answer.text


def test_headers_that_never_end(server: Server) -> None:
    before = peak_megabytes()
    server.flood(b"GET / HTTP/1.1\r\nX: ")
    assert peak_megabytes() - before < ALLOWED_MEGABYTES
    assert server.admits_its_node()


def test_a_request_of_a_node_that_is_too_large(server: Server) -> None:
    before = peak_megabytes()
    answer = server.post(server.headers(server.key), b"x" * (MAX_REQUEST_BYTES + 1))
    assert answer.status_code == 413
    assert f"at most {MAX_REQUEST_BYTES:,} bytes" in answer.text
    parts = (b"x" * MEGABYTE for _ in range(2))
    assert server.post(server.headers(server.key), parts).status_code == 413  # of unknown length
    assert peak_megabytes() - before < ALLOWED_MEGABYTES
    assert server.admits_its_node()
