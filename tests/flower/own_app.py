"""A Flower app of a user: its own train function, on a Grid without a network."""

import threading
import time
from collections.abc import Callable, Iterable
from itertools import chain, islice, repeat
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dynamite_fl.flower.step_meter import StepMeter
from tests.flower.local_grid import App, LocalGrid

SAMPLES = (60, 90, 150)
Orders = list[tuple[int, dict[str, object]]]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def data(node: int) -> TensorDataset:
    inputs = torch.randn(SAMPLES[node], 8, generator=torch.Generator().manual_seed(node))
    return TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())


def make_app(
    node: int,
    orders: Orders,
    *,
    with_meter: bool = True,
    seconds_per_sample: float = 0.0,
    change: Callable[[RecordDict], object] = RecordDict.keys,
) -> ClientApp:
    """Return an app that notes its orders; ``change`` may spoil its replies."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:  # noqa: ARG001
        config: Any = message.content["config"]
        orders.append((node, dict(config)))
        net = model()
        net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        loader = DataLoader(data(node), batch_size=int(config["batch_size"]), shuffle=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=float(config["learning_rate"]))
        meter = StepMeter(net, config) if with_meter else None
        batches = chain.from_iterable(repeat(loader))
        for inputs, labels in islice(batches, int(config["local_steps"])):
            time.sleep(seconds_per_sample * len(labels) * (1 + node))
            optimizer.zero_grad()
            loss: Any = nn.functional.cross_entropy(net.eval()(inputs), labels)
            loss.backward()
            optimizer.step()
            if meter is not None:
                meter.step()
        content = RecordDict(
            {
                "arrays": ArrayRecord(net.state_dict()),
                "metrics": MetricRecord({"num-examples": SAMPLES[node]}),
            }
        )
        if meter is not None:
            content["dynamite"] = meter.record()
        change(content)
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:  # noqa: ARG001
        net = model().eval()
        net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        inputs, labels = data(node).tensors
        with torch.no_grad():
            accuracy = (net(inputs).argmax(1) == labels).float().mean().item()
        metrics = MetricRecord({"accuracy": accuracy, "num-examples": SAMPLES[node]})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def own_grid(orders: Orders, **settings: Any) -> LocalGrid:
    """Return a Grid of three nodes with the ids 11, 12 and 13."""
    nodes = range(len(SAMPLES))
    apps: dict[int, App] = {11 + node: make_app(node, orders, **settings) for node in nodes}
    return ConcurrentGrid(apps, {11 + node: {} for node in nodes})


class ConcurrentGrid(LocalGrid):
    """A Grid whose nodes work at the same time, so that each reply has its own time of arrival."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            ids.append(str(next(self._numbers)))
            message.metadata.__dict__["_message_id"] = ids[-1]
            threading.Thread(target=self._work, args=(ids[-1], message)).start()
        return ids

    def _work(self, message_id: str, message: Message) -> None:
        reply = self._reply(message)
        if reply is not None:
            self._replies[message_id] = reply


def order_config(local_steps: int, batch_size: int) -> ConfigRecord:
    """Return a config as the server sends it."""
    numbers: dict[str, Any] = {"local_steps": local_steps, "batch_size": batch_size}
    return ConfigRecord({**numbers, "learning_rate": 0.1})
