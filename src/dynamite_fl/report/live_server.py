"""The web server of ``dynamite watch``, closed to other machines unless it has a token.

It answers a handful of fixed addresses and never opens a file whose name comes from a request. Each
connection carries one request of limited size and time, and the number of connections is limited.
"""

import hmac
import secrets
import socket
import time
from functools import cached_property
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from dynamite_fl.errors import InvalidInput
from dynamite_fl.report.live_page import LivePage
from dynamite_fl.report.page import plotly_script, text_file

_MOST_BYTES = 16_384  # of a request, headers included
_MOST_SECONDS = 30.0  # of a connection
_MOST_CONNECTIONS = 32
_COOKIE = "dynamite-watch"
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LiveServer(ThreadingHTTPServer):
    """Serves the pages about some run folders. Use it as a context manager.

    Attributes:
        page: The pages.
        token: The secret that a browser must show; None if only this machine can connect.
        url: The address to open, with the token.

    Raises:
        InvalidInput: The server cannot listen at this address.
        MissingExtra: plotly is not installed.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, paths: list[Path], host: str, port: int) -> None:
        self.page = LivePage(paths)
        self.files = {
            "/plotly.js": ("text/javascript", plotly_script()),
            "/charts.js": ("text/javascript", text_file("charts.js")),
            "/live.js": ("text/javascript", text_file("live.js")),
            "/style.css": ("text/css", text_file("style.css")),
        }
        self._connections: dict[socket.socket, float] = {}
        self.token = None if is_loopback(host) else secrets.token_urlsafe(24)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise InvalidInput(
                f"the page cannot be served at {host}, port {port}: {error.strerror}; choose "
                "another --port"
            ) from None

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        host, port = str(self.server_address[0]), self.server_address[1]
        if host in ("0.0.0.0", "::"):  # noqa: S104  it is only replaced
            host = socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        query = "" if self.token is None else f"?token={self.token}"
        return f"http://{shown}:{port}/{query}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread of its own, unless there are too many."""
        if len(self._connections) >= _MOST_CONNECTIONS:
            self.shutdown_request(request)
            return
        self._connections[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._connections.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that last too long, such as one that sends a byte now and then."""
        oldest = time.monotonic() - _MOST_SECONDS
        for connection, began in list(self._connections.items()):
            if began < oldest:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    self._connections.pop(connection, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a browser that has gone; a bug of ours still shows."""
        import sys

        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: LiveServer
    server_version, sys_version = "dynamite", ""
    timeout = 10.0
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def setup(self) -> None:
        """Limit what is read of a request."""
        super().setup()
        self.rfile = _Bounded(self.rfile, _MOST_BYTES)

    def do_GET(self) -> None:
        """Answer a GET request."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer a HEAD request."""
        self._answer()

    def _answer(self) -> None:
        if not self._is_host_known():
            self.send_error(HTTPStatus.FORBIDDEN, "this address is not that of dynamite watch")
        elif "token" in self._query:
            self._log_in(self._query["token"][0])
        elif not self._is_admitted():
            self.send_error(HTTPStatus.FORBIDDEN, "open the address that dynamite watch has shown")
        elif self._path in self.server.files:
            kind, text = self.server.files[self._path]
            self._send(kind, text, {"Cache-Control": "private, max-age=3600"})
        elif self._path in ("/", "/state"):
            self._send_page()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    @cached_property
    def _path(self) -> str:
        return _split(self.path).path

    @cached_property
    def _query(self) -> dict[str, list[str]]:
        try:
            return parse_qs(_split(self.path).query, max_num_fields=8)
        except ValueError:
            return {}

    def _send_page(self) -> None:
        state = self.server.page.state(self._query.get("run", [""])[0])
        if state is None:
            self.send_error(HTTPStatus.NOT_FOUND, "there is no such run")
            return
        fresh = {"Cache-Control": "no-store", "ETag": state.tag}
        if self._path == "/":
            self._send("text/html", state.html(), fresh)
        elif self.headers.get("If-None-Match") == state.tag:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self._send_headers({"ETag": state.tag})
        else:
            self._send("application/json", state.json(), fresh)

    def _send(self, kind: str, text: str, headers: dict[str, str]) -> None:
        content = text.encode()
        self.send_response(HTTPStatus.OK)
        length = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
        self._send_headers({**length, **headers})
        if self.command != "HEAD":
            self.wfile.write(content)

    def _send_headers(self, headers: dict[str, str]) -> None:
        for name, value in {**headers, **_SECURITY}.items():
            self.send_header(name, value)
        self.end_headers()

    def _log_in(self, token: str) -> None:
        """Give a browser that knows the token a cookie, and hide the token from the address."""
        if self.server.token is None or not _is_same(token, self.server.token):
            self.send_error(HTTPStatus.FORBIDDEN, "the token is wrong")
            return
        self.send_response(HTTPStatus.SEE_OTHER)
        cookie = f"{_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
        self._send_headers({"Location": "/", "Set-Cookie": cookie, "Cache-Control": "no-store"})

    def _is_admitted(self) -> bool:
        """Return whether no token is needed, or the request has the right one in its cookie."""
        if self.server.token is None:
            return True
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(_COOKIE)
        except CookieError:
            return False
        return cookie is not None and _is_same(cookie.value, self.server.token)

    def _is_host_known(self) -> bool:
        """Without a token, refuse names that a stranger's page may have pointed to this machine."""
        if self.server.token is not None:
            return True
        host = _split(f"//{self.headers.get('Host', '')}").hostname
        return host is not None and is_loopback(host)

    def log_message(self, *_: object) -> None:
        """Write no log."""


class _Bounded(BufferedIOBase):
    """A stream of which only some bytes can be read; more of them end the connection."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream, self._left = stream, most

    def readline(self, size: int | None = -1) -> bytes:
        """Read a line.

        Raises:
            ConnectionAbortedError: No bytes are left, so that the rest is not answered.
        """
        if self._left <= 0:
            raise ConnectionAbortedError("the request is too long")
        most = self._left if size is None or size < 0 else min(size, self._left)
        line: bytes = self._stream.readline(most)
        self._left -= len(line)
        return line

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, as seen from itself.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("example.org")
        (True, True, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _split(address: str) -> SplitResult:
    """Return the parts of an address; of one that makes no sense, no parts."""
    try:
        return urlsplit(address)
    except ValueError:
        return SplitResult("", "", "", "", "")


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
