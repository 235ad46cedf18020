"""Training and test data behind one interface."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task import tensor_samples
from dynamite_fl.task.batch import tensors_in
from dynamite_fl.task.dataset_samples import DatasetSamples
from dynamite_fl.task.samples import JoinedSamples, as_samples, split_rows
from dynamite_fl.task.tensor_samples import TensorSamples

X = torch.arange(24.0).reshape(8, 3)
Y = torch.tensor([2, 0, 1, 2, 0, 1, 1, 0])
ROWS = np.array([5, 0, 5, 7])


class Items(Dataset[Any]):
    """A dataset of given samples, which counts how many were loaded."""

    def __init__(self, items: Sequence[Any], **attributes: Any) -> None:
        self.items, self.loaded = items, 0
        self.__dict__.update(attributes)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        assert type(index) is int  # datasets may be lists, files, ...
        self.loaded += 1
        return self.items[index]


def pairs(targets: Any = None) -> list[tuple[Tensor, Any]]:
    return list(zip(X, Y.tolist() if targets is None else targets, strict=True))


def batch_of(data: Any, rows: Any = ROWS) -> Any:
    return as_samples("data", data).batch(rows)


# The same eight samples in every form.


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        (X.numpy(), Y.numpy()),
        (X.numpy().astype(">f8"), Y.numpy().astype("u2")),
        (X.clone().requires_grad_(), Y),
        TensorDataset(X, Y),
        Items(pairs()),
        Subset(TensorDataset(X.flip(0), Y.flip(0)), range(7, -1, -1)),
        ConcatDataset([Items(pairs()[:3]), Items(pairs()[3:])]),
    ],
)
def test_a_batch_has_the_samples_of_its_rows_in_their_order(data: Any) -> None:
    assert len(as_samples("data", data)) == 8
    inputs, targets = batch_of(data)
    assert torch.equal(inputs, X[ROWS])
    assert not inputs.requires_grad
    assert torch.equal(targets, Y[ROWS])
    assert targets.dtype == torch.int64
    assert as_samples("data", data).labels().tolist() == Y.tolist()


def test_samples_stay_in_their_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.numpy())
    np.save(tmp_path / "y.npy", Y.numpy().astype(np.int32))
    files = [np.load(tmp_path / name, mmap_mode="r") for name in ("x.npy", "y.npy")]
    inputs, targets = batch_of((files[0], files[1]))
    assert torch.equal(inputs, X[ROWS])
    assert torch.equal(targets, Y[ROWS])
    samples = as_samples("data", (files[0], files[1]))
    assert isinstance(samples, TensorSamples)
    assert samples.nbytes == X.numpy().nbytes + 8 * 4
    assert samples.labels().tolist() == Y.tolist()


@pytest.mark.parametrize("nest", [lambda x: (x, 2 * x), lambda x: {"a": x, "b": (x, 3 * x)}])
def test_several_inputs_and_targets(nest: Any) -> None:
    found = batch_of((nest(X), nest(Y)))
    expected = (nest(X[ROWS]), nest(Y[ROWS]))
    for ours, theirs in zip(tensors_in(found), tensors_in(expected), strict=True):
        assert torch.equal(ours, theirs)
    with pytest.raises(InvalidInput, match=r"give Task\.labels, one for each sample"):
        as_samples("data", (nest(X), nest(Y))).labels()


def test_a_dict_for_each_sample() -> None:
    data = Items([{"x": x, "label": y} for x, y in pairs()])
    batch = batch_of(data)
    assert torch.equal(batch["x"], X[ROWS])
    assert torch.equal(batch["label"], Y[ROWS])
    assert as_samples("data", data).labels().tolist() == Y.tolist()


def test_collating_is_the_users_if_they_want() -> None:
    def padded(items: list[Any]) -> Any:
        inputs = torch.nn.utils.rnn.pad_sequence([x for x, _ in items], batch_first=True)
        return inputs, torch.tensor([y for _, y in items])

    ragged = Items([(torch.ones(length), length) for length in (1, 3, 2)])
    found = as_samples("data", ragged, padded).batch(np.array([0, 1]))
    assert found[0].tolist() == [[1, 0, 0], [1, 1, 1]]
    with pytest.raises(InvalidInput, match="samples of different shapes cannot be stacked"):
        batch_of(ragged, np.array([0, 1]))


def test_only_the_samples_of_a_batch_are_loaded() -> None:
    data = Items(pairs())
    samples = as_samples("data", data)
    assert data.loaded == 0
    samples.batch(ROWS)
    assert data.loaded == len(ROWS)


@pytest.mark.parametrize("name", ["targets", "labels"])
@pytest.mark.parametrize("kind", [list, np.asarray, torch.tensor])
def test_labels_that_a_dataset_states_are_not_loaded(name: str, kind: Any) -> None:
    data = Items(pairs(), **{name: kind(Y.tolist())})
    assert as_samples("data", data).labels().tolist() == Y.tolist()
    half = Subset(data, [6, 2, 0])
    assert as_samples("data", half).labels().tolist() == [1, 1, 2]
    assert data.loaded == 0


def test_names_of_classes_are_not_taken_for_labels() -> None:
    data = Items(pairs(), labels=["cat", "dog", "owl"])
    assert as_samples("data", data).labels().tolist() == Y.tolist()


class Columns(Items):
    """A dataset by columns, as those of Hugging Face are."""

    column_names = ("text", "label")

    def __getitem__(self, index: Any) -> Any:
        return Y.tolist() if index == "label" else super().__getitem__(index)


def test_columns_state_labels() -> None:
    data = Columns(pairs(), column_names=["text", "label"])
    assert as_samples("data", data).labels().tolist() == Y.tolist()
    assert data.loaded == 0


def test_targets_without_a_common_shape_are_no_labels() -> None:
    ragged = Items([(x, torch.ones(place + 1)) for place, x in enumerate(X)])
    with pytest.raises(InvalidInput, match=r"have no common shape: give Task\.labels"):
        as_samples("data", ragged).labels()


def test_reading_labels_off_samples_leaves_generators_alone() -> None:
    class Augmented(Items):
        def __getitem__(self, index: int) -> Any:
            x, y = super().__getitem__(index)
            return x + torch.rand(3) + np.random.random() + random.random(), y  # noqa: NPY002, S311

    before = (torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate())  # noqa: NPY002
    assert as_samples("data", Augmented(pairs())).labels().tolist() == Y.tolist()
    after = (torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate())  # noqa: NPY002
    assert after == before


# One dataset for each client.


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_rows_of_a_list_count_through_its_datasets(sizes: list[int]) -> None:
    ends = np.cumsum(sizes)
    x = torch.arange(float(ends[-1]))[:, None]
    parts = [
        (x[end - size : end], x[end - size : end, 0]) for end, size in zip(ends, sizes, strict=True)
    ]
    joined = as_samples("data", parts)
    assert isinstance(joined, JoinedSamples)
    assert len(joined) == ends[-1]
    assert joined.owners.tolist() == [c for c, size in enumerate(sizes) for _ in range(size)]
    assert joined.labels().tolist() == x[:, 0].tolist()
    for client, rows in enumerate(split_rows(joined, np.arange(len(joined)))):
        assert (joined.clients(rows) == client).all()
        assert [joined.place(row) for row in rows] == [(client, own) for own in range(rows.size)]
        shuffled = rows[::-1].copy()
        assert joined.batch(shuffled)[1].tolist() == shuffled.tolist()


def test_clients_may_have_data_of_different_kinds() -> None:
    joined = as_samples("data", [(X[:3], Y[:3]), Items(pairs()[3:])])
    assert joined.batch(np.array([2, 0]))[1].tolist() == Y[[2, 0]].tolist()
    assert joined.batch(np.array([3, 7]))[1].tolist() == Y[[3, 7]].tolist()
    with pytest.raises(InvalidInput, match="a batch has samples of several clients"):
        joined.batch(np.array([2, 3]))


def test_rows_are_split_by_client() -> None:
    joined = as_samples("data", [(X, Y), (X, Y), (X, Y)])
    found = split_rows(joined, np.array([17, 3, 23, 3, 0]))
    assert [rows.tolist() for rows in found] == [[3, 3, 0], [17, 23]]
    (rows,) = split_rows(as_samples("data", (X, Y)), ROWS)
    assert rows is ROWS


# Mistakes.


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X, Y[:5]), r"data has 8 inputs, but 5 targets: each input needs one target"),
        (({"a": X, "b": X[:2]}, Y), "data has 2 inputs, but 8 targets"),
        ((X, Y, Y), r"a tuple of 3 entries: give \(inputs, targets\); several inputs are one"),
        ((X[:0], Y[:0]), "data inputs are empty: they need at least one sample"),
        ((X[:, :0], Y), "data inputs are empty"),
        ((np.zeros((0, 3)), np.zeros(0)), "data inputs are empty"),
        (((), Y), "data inputs are an empty tuple"),
        ((X, torch.tensor(1.0)), "data targets are one number: they must have a row for each"),
        ((X.tolist(), Y), r"data inputs are a list: give a torch\.Tensor or an array"),
        ((np.array(["a"] * 8), Y), "data inputs are <U1, which are no numbers"),
        ((X.to_sparse(), Y), "data inputs are a sparse tensor: give a dense one"),
        (X, r"data is a Tensor without targets: give a pair"),
        (X.numpy(), r"data is a ndarray without targets"),
        ({"x": X}, r"data is a dict: give a pair .* or one of the datasets"),
        ("digits", r"data is a str without targets"),
        (iter([1]), r"data is a list_iterator: give a pair \(inputs, targets\), a dataset"),
        (3, r"data is a int: give a pair"),
        (DataLoader(TensorDataset(X, Y)), r"data is a DataLoader: give its dataset"),
        ([], "data is an empty list: it needs one dataset for each client"),
        ([(X, Y), (X, Y[:1])], r"data\[1\] has 8 inputs, but 1 targets"),
        ([X, Y], r"data\[0\] is a Tensor without targets"),
        ([[(X, Y)]], r"data\[0\] is a list: give"),
        (pairs(), r"data\[0\] is one sample: give \(inputs, targets\), or a dataset"),
        (pairs(Y), r"data\[0\] is one sample"),
        (Items([]), "data is empty: it needs at least one sample"),
    ],
)
def test_data_that_can_never_be_right_is_refused_with_one_line(data: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as error:
        as_samples("data", data)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 7])
@pytest.mark.parametrize("large", [False, True])
def test_nan_and_infinity_are_found(
    value: float, row: int, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of large data some rows are looked at, the first and the last among them."""
    if large:
        monkeypatch.setattr(tensor_samples, "_CHECKED_BYTES", 0)
        monkeypatch.setattr(tensor_samples, "_ROWS_CHECKED", 3)
    bad = X.clone()
    bad[row, 1] = value
    with pytest.raises(InvalidInput, match=rf"data inputs\[{row}\] has NaN or infinity"):
        as_samples("data", (bad, Y))
    with pytest.raises(InvalidInput, match=rf"data\[0\] targets\['t'\]\[{row}\] has NaN"):
        as_samples("data", [(X, {"t": bad})])


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bool, torch.float16, torch.bfloat16, torch.int32, torch.complex64]
)
def test_tensors_keep_their_type(dtype: torch.dtype) -> None:
    assert batch_of((X.to(dtype), Y))[0].dtype == dtype


def test_one_sample_is_enough() -> None:
    for data in ((X[:1], Y[:1]), Items(pairs()[:1]), [(X[:1], Y[:1])]):
        samples = as_samples("data", data)
        assert len(samples) == 1
        assert samples.batch(np.array([0, 0]))[1].tolist() == [2, 2]
    assert isinstance(as_samples("data", Items(pairs()[:1])), DatasetSamples)


class ManyAtOnce(Dataset[Any]):
    """A dataset that loads a batch at once, as torch's loader asks for it."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, row: int) -> Any:
        raise AssertionError("samples are not loaded one by one")

    def __getitems__(self, rows: list[int]) -> list[Any]:
        return [(torch.tensor([float(row)]), row % 2) for row in rows]


def test_a_dataset_that_loads_a_batch_at_once_does_so() -> None:
    samples = as_samples("data", ManyAtOnce())
    inputs, labels = samples.batch(np.array([4, 1]))
    assert inputs.tolist() == [[4.0], [1.0]]
    assert labels.tolist() == [0, 1]
    part = as_samples("data", Subset(ManyAtOnce(), [3, 2]))
    assert part.batch(np.array([0, 1]))[0].tolist() == [[3.0], [2.0]]
