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
        trust: Called with the address of a sender that is let through.
    """

    def __init__(
        self,
        app: ASGIApp,
        known_keys: Collection[bytes] | None,
        trust: Callable[[Address], None],
    ) -> None:
        self._app, self._known_keys, self._trust = app, known_keys, trust

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        headers = Headers(scope=scope)
        if self._known_keys is not None and not await run_in_threadpool(
            is_signed_by, self._known_keys, headers
        ):
            refusal = _refusal(401, "the server does not know the key of this node")
            await refusal(scope, receive, send)
            return
        if scope.get("client") is not None:
            self._trust((scope["client"][0], scope["client"][1]))
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
        age = (now() - datetime.datetime.fromisoformat(stamp)).total_seconds()
        is_recent = -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE
        return (
            is_recent
            and key in known_keys
            and bool(verify_signature(bytes_to_public_key(key), stamp.encode("ascii"), signature))
        )
    except (KeyError, TypeError, ValueError):  # headers that no node of ours sends
        return False


def _refusal(status: int, reason: str) -> PlainTextResponse:
    return PlainTextResponse(f"refused: {reason}\n", status, {"Connection": "close"})
