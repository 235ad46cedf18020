import torch

from dynamite_fl.task.datasets.load import load_dataset


def test_digits_are_always_split_alike() -> None:
    first, again = load_dataset("digits"), load_dataset("digits", seed=5)
    assert torch.equal(first.train_inputs, again.train_inputs)
    assert first.train_inputs.shape == (1437, 1, 8, 8)
    assert first.test_inputs.shape == (360, 1, 8, 8)
    assert first.train_inputs.min() == 0
    assert first.train_inputs.max() == 1
    assert torch.bincount(first.train_labels).min() > 120
    everything = torch.cat([first.train_inputs, first.test_inputs]) * 16
    assert everything.sum() == 561_718  # the sum of all pixels in scikit-learn's file


def test_changed_digits_do_not_come_back() -> None:
    load_dataset("digits").train_inputs.zero_()
    assert load_dataset("digits").train_inputs.sum() > 0
