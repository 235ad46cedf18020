"""Nodes that wait for a message: the server answers them when there is one.

A node of Flower asks again and again whether there is a message for it. With many nodes, such
questions are most of the server's work. Here a question waits at the server until there is a
message for its node, for some seconds at most.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from fastapi import Request
from flwr.proto.fleet_pb2 import PullMessagesRequest

from dynamite_fl.flower.in_process import has_message

WAIT_SECONDS = 2.0  # the least wait; a node that leaves is noticed this late
_MOST_WAIT_SECONDS = 10.0
_QUESTIONS_PER_SECOND = 25  # of all nodes; with more nodes, each of them waits for longer


class WaitingRoom:
    """The nodes that wait for a message; it is called with each request of Flower's protocol.

    Args:
        state: The state of the SuperLink.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[int, asyncio.Event] = {}

    async def __call__(self, request: Request) -> None:
        """Let a node that asks for messages wait until there is one."""
        content = getattr(request.state, "protobuf_request", None)
        if isinstance(content, PullMessagesRequest):
            await self.wait(content.node.node_id)

    async def wait(self, node_id: int) -> None:
        """Wait until there is a message for a node, for some seconds at most."""
        self._loop = asyncio.get_running_loop()
        event = self._waiting.setdefault(node_id, asyncio.Event())
        event.clear()
        longer = min(len(self._waiting) / _QUESTIONS_PER_SECOND, _MOST_WAIT_SECONDS)
        if not has_message(self._state, node_id):
            try:
                await asyncio.wait_for(event.wait(), max(WAIT_SECONDS, longer))
            except TimeoutError:
                return

    def call(self, node_ids: Iterable[int]) -> None:
        """Wake nodes for which there are messages now; any thread may do this."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, list(node_ids))

    def _wake(self, node_ids: Iterable[int]) -> None:
        for node_id in node_ids:
            if (event := self._waiting.get(node_id)) is not None:
                event.set()
