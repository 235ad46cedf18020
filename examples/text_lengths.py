"""A text classifier for texts of different lengths: a dataset, and a function that pads batches.

A batch is (letters, lengths, labels): the last entry holds the targets, and the model gets the
others as its arguments.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

import dynamite_fl as fl

LETTERS = 6


class Texts(torch.utils.data.Dataset):
    """Texts of 3 to 20 random letters; the label says whether 0 is more frequent than 1."""

    def __init__(self, samples: int, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        lengths = torch.randint(3, 21, (samples,), generator=random).tolist()
        self.texts = [torch.randint(LETTERS, (length,), generator=random) for length in lengths]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        text = self.texts[row]
        return text, int((text == 0).sum() > (text == 1).sum())


def pad_batch(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor]:
    texts = [text for text, _ in samples]
    lengths = torch.tensor([len(text) for text in texts])
    return pad_sequence(texts, batch_first=True), lengths, torch.tensor([y for _, y in samples])


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gru = nn.Embedding(LETTERS, 8), nn.GRU(8, 32, batch_first=True)
        self.output = nn.Linear(32, 2)

    def forward(self, letters: Tensor, lengths: Tensor) -> Tensor:
        embedded = self.embedding(letters)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        return self.output(self.gru(packed)[1][-1])


def make_task(samples: int = 2000) -> fl.Task:
    train, test = Texts(samples, seed=1), Texts(samples // 4, seed=2)
    loss, pad = nn.CrossEntropyLoss(), pad_batch
    return fl.Task(model=Classifier, loss=loss, train_data=train, test_data=test, collate_fn=pad)


if __name__ == "__main__":
    limits = fl.Limits(deadline=60, budget=40, cost_per_sample=0.0005, cost_per_round=1)
    print(fl.train(make_task(), devices="testbed5", limits=limits, learning_rate=0.5))
