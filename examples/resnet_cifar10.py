"""A ResNet with batch normalisation on CIFAR-10, whose images are shifted and flipped at random.

The statistics of batch normalisation are averaged with the weights, so the trained model in
evaluation mode has the accuracy that is reported. CIFAR-10 is searched for in $DYNAMITE_DATA.
"""

import torch
from torch import Tensor, nn

import dynamite_fl as fl


class Augmented(torch.utils.data.Dataset):
    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        top, left = torch.randint(9, (2,)).tolist()
        image = nn.functional.pad(self.images[row], [4] * 4)[:, top : top + 32, left : left + 32]
        return image.flip(-1) if torch.rand(()) < 0.5 else image, self.labels[row]


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return (self.norm2(self.conv2(self.norm1(self.conv1(x)).relu())) + self.shortcut(x)).relu()


def resnet18(w: int) -> nn.Module:
    """Return a network like ResNet-18, which has w = 64."""
    first = [nn.Conv2d(3, w, 3, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU()]
    pairs = [(w, w), (w, 2 * w), (2 * w, 4 * w), (4 * w, 8 * w)]
    blocks = [block for a, b in pairs for block in (Block(a, b), Block(b, b))]
    return nn.Sequential(*first, *blocks, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(8 * w, 10))


def make_task(samples: int = 50_000, width: int = 8) -> fl.Task:
    data, model = fl.load_dataset("cifar10"), lambda: resnet18(width)
    train = Augmented(data.train_inputs[:samples], data.train_labels[:samples])
    test = data.test_inputs[: samples // 25], data.test_labels[: samples // 25]
    return fl.Task(model=model, loss=nn.CrossEntropyLoss(), train_data=train, test_data=test)


if __name__ == "__main__":
    limits = fl.Limits(deadline=600, budget=10, cost_per_sample=0.0005, cost_per_round=0.2)
    sgd = fl.Optimizer("SGD", momentum=0.9, weight_decay=5e-4)
    fixed = fl.controllers.FedAvg(local_steps=8, batch_size=32)  # others choose small batches
    how = {"devices": "testbed5", "controller": fixed, "learning_rate": 0.05, "optimizer": sgd}
    print(fl.train(make_task(), limits=limits, **how))
