"""LoRA: a frozen transformer whose linear layers get trained corrections of low rank.

Only weights with requires_grad=True are trained and sent. The frozen ones must be the same on all
machines: here they come from the seed, in practice from a file that make_model loads.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import dynamite_fl as fl

WORDS, LENGTH, WIDTH, HEADS, RANK = 50, 16, 64, 4, 4


class LoRA(nn.Linear):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(RANK, inputs) / inputs**0.5)
        self.up = nn.Parameter(torch.zeros(outputs, RANK))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x @ self.down.T @ self.up.T


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads, self.joined = LoRA(WIDTH, 3 * WIDTH), LoRA(WIDTH, WIDTH)
        self.inside = nn.Sequential(LoRA(WIDTH, 2 * WIDTH), nn.ReLU(), LoRA(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        heads = self.heads(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.joined(scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        return x + self.inside(x)


def make_model() -> nn.Module:
    embedding = nn.Embedding(WORDS, WIDTH).requires_grad_(False)
    mean_and_output = [nn.AdaptiveAvgPool2d((1, WIDTH)), nn.Flatten(), LoRA(WIDTH, 2)]
    return nn.Sequential(embedding, Layer(), Layer(), *mean_and_output)


def make_task(samples: int = 2000) -> fl.Task:
    """Return the task: has a text more words of the dictionary's first half than of its second?"""
    texts = torch.randint(WORDS, (samples, LENGTH), generator=torch.Generator().manual_seed(0))
    labels, cut = ((texts < WORDS // 2).sum(dim=1) > LENGTH // 2).long(), samples * 4 // 5
    train, test = (texts[:cut], labels[:cut]), (texts[cut:], labels[cut:])
    return fl.Task(model=make_model, loss=nn.CrossEntropyLoss(), train_data=train, test_data=test)


if __name__ == "__main__":
    limits = fl.Limits(deadline=60, budget=30, cost_per_sample=0.0005, cost_per_round=1)
    how = {"devices": "testbed5", "learning_rate": 0.01, "optimizer": "AdamW"}
    result = fl.train(make_task(), limits=limits, **how)
    weights = list(result.model.parameters())
    adapters = sum(weight.numel() for weight in weights if weight.requires_grad)
    print(result, f"{result.history[-1].sent_bytes:,} bytes sent for {adapters:,} adapter weights")
