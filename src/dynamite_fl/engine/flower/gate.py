"""Who may speak to the server, and how much at a time, seen from a request's first lines.

Flower reads a request whole before it looks at who sent it, so that a stranger could have it hold
any amount. Here strangers are refused by their headers, and nothing else of theirs is read. The
server for HTTP bounds headers to 64 KB.
"""

import datetime
from base64 import b64decode
from collections.abc import Collection, Mapping

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

MOST_BYTES = 2 * FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE  # of a request; nodes send arrays in such chunks


class Gate:
    """An app that lets another see only requests of known nodes, and none that is too large.

    Args:
        app: The other.
        known: The nodes' public keys, PEM; None if anyone may speak, as on one machine.
    """

    def __init__(self, app: ASGIApp, known: Collection[bytes] | None) -> None:
        self._app, self._known = app, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        headers = Headers(scope=scope)
        if self._known is not None and not await run_in_threadpool(
            is_signed_by, self._known, headers
        ):
            await _refuse(401, "no node that this server knows")(scope, receive, send)
            return
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or int(length) > MOST_BYTES:
            why = f"it must say its length, at most {MOST_BYTES:,} bytes"
            await _refuse(413, why)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_signed_by(known: Collection[bytes], headers: Mapping[str, str]) -> bool:
    """Whether a request's headers carry one of these keys and a fresh signature by it."""
    try:
        key = b64decode(headers[FLEET_HTTP_PUBLIC_KEY_HEADER], validate=True)
        signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER], validate=True)
        stamp = headers[TIMESTAMP_HEADER]
        age = (now() - datetime.datetime.fromisoformat(stamp)).total_seconds()
        fresh = -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE
        return (
            fresh
            and key in known
            and bool(verify_signature(bytes_to_public_key(key), stamp.encode("ascii"), signature))
        )
    except (KeyError, TypeError, ValueError):  # whatever a stranger may have sent
        return False


def _refuse(code: int, why: str) -> PlainTextResponse:
    return PlainTextResponse(f"refused: {why}\n", code, {"Connection": "close"})
