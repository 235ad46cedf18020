"""A client that learns from files that arrive in a folder."""

from pathlib import Path

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import Compute, FlatModel
from dynamite_fl.client.local_data.sample_format import sample_format
from dynamite_fl.client.local_data.sources import FolderSource
from dynamite_fl.client.local_data.store import SampleStore
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.probe import ProbeSettings
from dynamite_fl.stream.buffer import NOTHING, Storage
from dynamite_fl.task.task import Task

_DEFAULT_SIZE = 10_000


def incoming_client(
    task: Task,
    folder: Path | str,
    *,
    seed: int = 0,
    storage: Storage | None = None,
    settings: ProbeSettings | None = None,
    optimizer: Optimizer | None = None,
    compute: Compute | None = None,
) -> Client:
    """Return a client whose samples arrive in a folder, as ``.npz`` files (``FolderSource``).

    Args:
        task: The model and the loss; its training data only show the format of samples.
        folder: The folder.
        seed: The seed of the training.
        storage: The policy and size of the buffer. Default: a reservoir of 10,000 samples.
        settings: The settings of a probe.
        optimizer: What is done with gradients. Default: plain SGD.
        compute: Where the model is computed. Default: on the CPU.
    """
    model = FlatModel(task, seed, compute)
    storage = storage or Storage("reservoir", _DEFAULT_SIZE, seed)
    store = SampleStore(sample_format(model), storage, FolderSource(folder))
    return Client(
        model=model,
        samples=store.samples,
        indices=NOTHING.rows,
        seed=seed,
        settings=settings or ProbeSettings(),
        optimizer=optimizer or Optimizer(),
        incoming=store,
    )
