"""The app of a node. The lines with the meter are all that DYNAMITE adds."""

from itertools import chain, islice, repeat

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.utils.data import DataLoader

from digits_app.task import Net, load_data
from dynamite_fl.flower import StepMeter

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on this node's data, as the message asks."""
    model, config = Net(), message.content["config"]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    data, _ = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    loader = DataLoader(data, batch_size=config["batch_size"], shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["learning_rate"], momentum=0.9)
    meter = StepMeter(model, config)
    for images, labels in islice(chain.from_iterable(repeat(loader)), config["local_steps"]):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        meter.step()
    content = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"train_loss": loss.item(), "num-examples": len(data)}),
            "dynamite": meter.record(),
        }
    )
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the global model on this node's test data."""
    model = Net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, data = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    images, labels = data.tensors
    with torch.no_grad():
        accuracy = (model(images).argmax(dim=1) == labels).float().mean().item()
    metrics = MetricRecord({"accuracy": accuracy, "num-examples": len(data)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
