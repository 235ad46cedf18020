"""Few positive samples, and clients that differ: F1 and AUC, on each client's own test data.

A list of datasets gives each client its own training and test data. The metrics are those of
torchmetrics, by name (pip install 'dynamite-fl[metrics]').
"""

import torch
from torch import Tensor, nn

import dynamite_fl as fl


def client_data(client: int, samples: int) -> tuple[Tensor, Tensor]:
    """Return the points of a client, of which one in ten is positive."""
    random = torch.Generator().manual_seed(client)
    inputs = torch.randn(samples, 8, generator=random)
    scores = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + 0.2 * client * inputs[:, 3]
    return inputs, (scores > scores.quantile(0.9)).float()


def make_task(clients: int = 5, samples: int = 500) -> fl.Task:
    data = [client_data(client, samples) for client in range(clients)]
    cut = samples * 4 // 5
    return fl.Task(
        name="rare points",
        model=lambda: nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0)),
        loss=nn.BCEWithLogitsLoss(pos_weight=torch.tensor(9.0)),
        train_data=[(inputs[:cut], labels[:cut]) for inputs, labels in data],
        test_data=[(inputs[cut:], labels[cut:]) for inputs, labels in data],
        metrics={"f1": "BinaryF1Score", "auc": "BinaryAUROC"},
    )


if __name__ == "__main__":
    result = fl.train(
        make_task(),
        devices="testbed5",
        limits=fl.Limits(deadline=60, budget=40, cost_per_sample=0.001, cost_per_round=1),
        learning_rate=0.1,
    )
    client, f1 = result.worst_client
    print(result)
    print(f"The worst client is {client}, with an F1 of {f1:.3f} on its own test data.")
