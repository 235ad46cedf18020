"""Authentication of nodes by the first lines of a request.

Flower reads a request completely before it checks the sender, so a stranger could make the server
hold any amount of data. Here a request is refused by its headers, and its body is not read. The
HTTP server limits headers to 64 KB.
"""

import datetime
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping

from flwr.common.constant import (
    FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_HEADER,
    TIMESTAMP_TOLERANCE,
)
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dynamite_fl.flower.connections import Address

MAX_REQUEST_BYTES = 2 * FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE  # nodes send larger arrays in chunks


class AuthMiddleware:
    """A middleware that refuses requests of unknown nodes and requests that are too large.

    Args:
        app: The application that handles the requests that are let through.
        known_keys: The public keys of the known nodes, in PEM format; None to let every sender
            through, which is meant for servers that only their own machine can reach.
        trust: Called with the address of a sender that is let through, and with its public key,
            which is empty if there are no known keys, as nothing is verified here then.
    """

    def __init__(
        self,
        app: ASGIApp,
        known_keys: Collection[bytes] | None,
        trust: Callable[[Address, bytes], None],
    ) -> None:
        self._app, self._known_keys, self._trust = app, known_keys, trust

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        headers = Headers(scope=scope)
        if self._known_keys is not None and not await run_in_threadpool(
            is_signed_by, self._known_keys, headers
        ):
            await _refusal(401, _why_unknown(headers))(scope, receive, send)
            return
        if scope.get("client") is not None:
            key = "" if self._known_keys is None else headers[FLEET_HTTP_PUBLIC_KEY_HEADER]
            self._trust((scope["client"][0], scope["client"][1]), b64decode(key))
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or int(length) > MAX_REQUEST_BYTES:
            rule = f"a request must state its length, at most {MAX_REQUEST_BYTES:,} bytes"
            await _refusal(413, rule)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_signed_by(known_keys: Collection[bytes], headers: Mapping[str, str]) -> bool:
    """Return whether headers carry one of the known keys and a recent signature made with it."""
    try:
        key = b64decode(headers[FLEET_HTTP_PUBLIC_KEY_HEADER], validate=True)
        signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER], validate=True)
        stamp = headers[TIMESTAMP_HEADER]
        return (
            _is_recent(_age(stamp))
            and key in known_keys
            and bool(verify_signature(bytes_to_public_key(key), stamp.encode("ascii"), signature))
        )
    except (KeyError, TypeError, ValueError):  # headers that no node of ours sends
        return False


def _age(stamp: str) -> float:
    """Return how many seconds ago a request was signed, if both clocks are right."""
    return (now() - datetime.datetime.fromisoformat(stamp)).total_seconds()


def _is_recent(age: float) -> bool:
    return -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE


def _why_unknown(headers: Mapping[str, str]) -> str:
    """Say why a request is refused; a wrong clock is not the same as an unknown key."""
    try:
        age = _age(headers[TIMESTAMP_HEADER])
    except (KeyError, TypeError, ValueError):
        age = 0.0
    if _is_recent(age):
        return "the server does not know the key of this node"
    relation = "behind" if age > 0 else "ahead of"
    return (
        f"the clock of this node is {abs(age):.0f} s {relation} the server's, so that its "
        "signatures are not valid: set both clocks right"
    )


def _refusal(status: int, reason: str) -> PlainTextResponse:
    return PlainTextResponse(f"refused: {reason}\n", status, {"Connection": "close"})
