"""AdamW with weight decay and clipped gradients, on a network with dropout.

Any optimiser of torch.optim works, with its own options. The learning rate is that of the training.
In a job file the same is the table [optimizer] with name, weight_decay and clip_norm.
"""

from torch import nn

import dynamite_fl as fl


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(256, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def make_task(samples: int = 1437) -> fl.Task:
    data = fl.load_dataset("digits")
    return fl.Task(
        name="digits",
        model=make_model,
        loss=nn.CrossEntropyLoss(label_smoothing=0.1),
        train_data=(data.train_inputs[:samples], data.train_labels[:samples]),
        test_data=(data.test_inputs, data.test_labels),
    )


if __name__ == "__main__":
    result = fl.train(
        make_task(),
        devices="testbed5",
        partition=fl.partitions.dirichlet(alpha=0.3),
        limits=fl.Limits(deadline=60, budget=40, cost_per_sample=0.001, cost_per_round=1),
        learning_rate=0.002,
        optimizer=fl.Optimizer("AdamW", weight_decay=0.05, clip_norm=1.0),
    )
    print(result)
