"""The HTTP server for nodes: uvicorn, with limits on connections and on handshakes.

uvicorn accepts every connection and waits for its first request without end. Here connections are
accepted one by one, counted, and closed if no known node shows itself in time.
"""

import asyncio
import socket
import ssl
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dynamite_fl.flower.connections import SECONDS_FOR_STRANGERS, Address, Connections

_PAUSE_SECONDS = 0.2  # if no connection can be accepted, for example for want of files
# A machine that was switched off does not close its connections: the system asks after 20 s of
# silence whether it is there, every 5 s, and closes them after four questions without an answer.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}


class WebServer(uvicorn.Server):
    """A server that limits connections.

    Args:
        config: uvicorn's settings, for HTTP by ``CountedProtocol``.
        connections: The open connections and their limits.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections
        self._tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections; uvicorn calls this."""
        await self.lifespan.startup()
        self.servers = []
        for listener in sockets or []:
            listener.setblocking(False)
            self._start(self._accept(listener))
        self.started = True

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while not self.should_exit:
            try:
                connection, peer = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            _ask_whether_alive(connection)
            address = (str(peer[0]), int(peer[1]))
            self._start(self._serve_connection(connection, address))
            await asyncio.sleep(0)  # others have their turn too, however many are waiting

    async def _serve_connection(self, connection: socket.socket, address: Address) -> None:
        """Serve a connection until it is closed; if this is cancelled, close it."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None or not self._connections.add(address, task.cancel):
            connection.close()
            return
        too_late = loop.call_later(SECONDS_FOR_STRANGERS, self._connections.close_stranger, address)
        closed = loop.create_future()

        def make_protocol() -> CountedProtocol:
            protocol = CountedProtocol(
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            protocol.closed = closed
            return protocol

        transport: Any = None  # asyncio's, or that of another event loop
        try:
            context: ssl.SSLContext | None = self.config.ssl
            transport, _ = await loop.connect_accepted_socket(
                make_protocol,
                connection,
                ssl=context,
                ssl_handshake_timeout=None if context is None else SECONDS_FOR_STRANGERS,
            )
            await closed
        except OSError:  # the handshake failed, or the other side is gone
            pass
        finally:
            too_late.cancel()
            if transport is None:
                connection.close()
            else:
                transport.abort()
            self._connections.remove(address)

    def _start(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # a loop itself keeps no reference to its tasks
        task.add_done_callback(self._tasks.discard)
        return task


def _ask_whether_alive(connection: socket.socket) -> None:
    """Let the system close a connection if the machine at its other end is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class CountedProtocol(H11Protocol):
    """HTTP by h11, which limits the size of headers, and tells when its connection is closed."""

    closed: "asyncio.Future[None] | None" = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is closed; the event loop calls this."""
        super().connection_lost(exc)
        if self.closed is not None and not self.closed.done():
            self.closed.set_result(None)
