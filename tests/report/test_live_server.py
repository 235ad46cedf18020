"""The web server of ``dynamite watch``: what it answers, and what it refuses."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dynamite_fl.errors import InvalidInput
from dynamite_fl.report import live_server
from dynamite_fl.report.live_server import LiveServer
from tests.processes import HANG_SECONDS, wait_until


@contextmanager
def serving(folder: Path, host: str = "127.0.0.1") -> Iterator[LiveServer]:
    with LiveServer([folder], host, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(HANG_SECONDS)


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[LiveServer]:
    with serving(runs / "versus") as started:
        yield started


def ask(
    server: LiveServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    """Return the status, the headers and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request(
        method, path, headers={key.replace("_", "-"): headers[key] for key in headers}
    )
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.headers.items()), body


def test_the_page_and_its_parts(server: LiveServer) -> None:
    status, headers, page = ask(server, "/")
    assert status == 200
    assert '<h1 id="title">versus</h1>' in page
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert "Python" not in headers["Server"]
    for name in ("plotly.js", "charts.js", "live.js", "style.css"):
        assert f"/{name}" in page
        status, headers, text = ask(server, f"/{name}")
        assert status == 200
        assert headers["Content-Type"].startswith(
            "text/css" if name.endswith("css") else "text/java"
        )
        assert len(text) > 100
    assert ask(server, "/", method="HEAD")[2] == ""


def test_the_state_is_sent_only_if_it_has_changed(server: LiveServer) -> None:
    status, headers, text = ask(server, "/state")
    assert status == 200
    assert json.loads(text)["title"] == "versus"
    assert ask(server, "/state", If_None_Match=headers["ETag"])[0] == 304
    assert ask(server, "/state", If_None_Match='"another"')[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/job.toml",
        "/../job.toml",
        "/%2e%2e/job.toml",
        "//etc/passwd",
        "/style.css/../../write.py",
        "/?run=../plain",
        "/state?run=/etc",
        "/?run=..%2Fplain",
        "/plotly.js%00",
        "http://127.0.0.1/etc/passwd",
        "//[bad/state",
    ],
)
def test_there_is_no_other_address(server: LiveServer, path: str) -> None:
    assert ask(server, path)[0] == 404


def test_other_methods_are_refused(server: LiveServer) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(server, "/", method=method)[0] == 501


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "10.0.0.1", "[bad"])
def test_pages_of_strangers_cannot_reach_it_by_another_name(server: LiveServer, host: str) -> None:
    assert ask(server, "/state", Host=host)[0] in (400, 403)


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:80"])
def test_names_of_this_machine_are_known(server: LiveServer, host: str) -> None:
    assert ask(server, "/state", Host=host)[0] == 200


def test_without_a_token_nothing_asks_for_one(server: LiveServer) -> None:
    assert server.token is None
    assert server.url == f"http://127.0.0.1:{server.server_address[1]}/"
    assert ask(server, "/?token=guess")[0] == 403


def test_other_machines_need_the_token(runs: Path) -> None:
    with serving(runs / "plain", "0.0.0.0") as server:  # noqa: S104
        token = server.token
        assert token is not None
        assert server.url.endswith(f"/?token={token}")
        for path in (
            "/",
            "/state",
            "/plotly.js",
            "/nothing",
            f"/state?token={token[:-1]}",
            "/?token=",
        ):
            status, _, text = ask(server, path)
            assert status == 403, path
            assert "plain" not in text
        for cookie in ("dynamite-watch=", "dynamite-watch=guess", 'a;b="', f"other={token}"):
            assert ask(server, "/", Cookie=cookie)[0] == 403
        status, headers, _ = ask(server, f"/?token={token}")
        assert (status, headers["Location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].partition(";")[0]
        assert ask(server, "/", Cookie=cookie, Host="training.example.org")[0] == 200


def raw(server: LiveServer, *parts: bytes) -> bytes:
    """Send bytes, and return the whole answer; nothing if the server just closes."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), HANG_SECONDS) as sock:
        try:
            for part in parts:
                sock.sendall(part)
            return b"".join(iter(lambda: sock.recv(65536), b""))
        except (ConnectionResetError, BrokenPipeError):
            return b""


def test_requests_are_bounded(server: LiveServer) -> None:
    header = b"X-Long: " + b"a" * 4000 + b"\r\n"
    assert b" 200 " in raw(server, b"GET /state HTTP/1.0\r\nHost: localhost\r\n", header, b"\r\n")
    many = raw(server, b"GET /state HTTP/1.0\r\nHost: localhost\r\n", *[header] * 100, b"\r\n")
    assert b" 200 " not in many
    assert b" 200 " not in raw(server, b"GET /" + b"a" * 100_000 + b" HTTP/1.0\r\n\r\n")
    assert b" 200 " not in raw(server, b"\x16\x03\x01\x02\x00" * 50 + b"\r\n\r\n")
    assert ask(server, "/state")[0] == 200  # it still answers


def test_slow_and_many_connections_end(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "_MOST_SECONDS", 0.2)
    monkeypatch.setattr(live_server, "_MOST_CONNECTIONS", 3)
    with serving(runs / "plain") as server:
        address = ("127.0.0.1", server.server_address[1])
        slow = [socket.create_connection(address, HANG_SECONDS) for _ in range(6)]
        for connection in slow:
            assert connection.recv(1) == b""  # the server has closed it
            connection.close()
        wait_until(lambda: not server._connections, lambda: server._connections)
        assert ask(server, "/plotly.js")[0] == 200


def test_an_address_that_cannot_be_used(runs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"port {port}: .*; choose another --port"):
            LiveServer([runs], "127.0.0.1", port)


def test_answers_come_while_others_read(server: LiveServer) -> None:
    """A browser that sends nothing keeps nobody from being answered."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), HANG_SECONDS):
        began = time.monotonic()
        assert ask(server, "/state")[0] == 200
        assert time.monotonic() - began < HANG_SECONDS
