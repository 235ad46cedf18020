"""A Grid that calls ClientApps directly, without a network."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

App = Callable[[Message, Context], Message]


class LocalGrid:
    """A Grid of apps by node id; a node that is removed from ``apps`` has disconnected."""

    def __init__(self, apps: dict[int, App], configs: dict[int, dict[str, Any]]) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.apps = apps
        self.contexts = {
            node: Context(
                run_id=1,
                node_id=node,
                node_config=configs[node],
                state=RecordDict(),
                run_config={},
                series_id=1,
            )
            for node in apps
        }
        self._numbers = itertools.count()
        self._replies: dict[str, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        return list(self.apps)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            ids.append(str(next(self._numbers)))
            message.metadata.__dict__["_message_id"] = ids[-1]
            reply = self._reply(message)
            if reply is not None:
                self._replies[ids[-1]] = reply
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(key) for key in message_ids if key in self._replies]

    def _reply(self, message: Message) -> Message | None:
        """Return the node's reply; None if its app raises TimeoutError, which stands for a hang."""
        node = message.metadata.dst_node_id
        try:
            return self.apps[node](message, self.contexts[node])
        except TimeoutError:
            return None
        except Exception as error:
            return Message(Error(code=2, reason=str(error)), reply_to=message)
