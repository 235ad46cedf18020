"""The client of one device, which has its own data or learns from files that arrive in a folder."""

from pathlib import Path

import numpy as np

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_data.sample_format import sample_format
from dynamite_fl.client.local_data.sources import FolderSource
from dynamite_fl.client.local_data.store import SampleStore
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.private_update import NodePrivacy
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.errors import InvalidInput
from dynamite_fl.stream.buffer import NOTHING, Storage

_DEFAULT_SIZE = 10_000


def device_client(
    model: FlatModel,
    seed: int = 0,
    settings: ProbeSettings | None = None,
    optimizer: Optimizer | None = None,
    *,
    incoming: Path | str | None = None,
    storage: Storage | None = None,
    privacy: NodePrivacy | None = None,
) -> Client:
    """Return a client that has all training data of its task, or learns from a folder.

    Args:
        model: The model, with its task.
        seed: The seed of the training.
        settings: The settings of a probe.
        optimizer: What is done with gradients. Default: plain SGD.
        incoming: The folder in which samples arrive, as ``.npz`` files (``FolderSource``). The
            task's data then only show their format.
        storage: The policy and size of the buffer of incoming samples. Default: a reservoir of
            10,000 samples.
        privacy: How the client clips its update and adds noise; None if it does neither.

    Raises:
        InvalidInput: The training data is a list with one dataset for each client.
    """
    settings, optimizer = settings or ProbeSettings(), optimizer or Optimizer()
    if incoming is not None:
        storage = storage or Storage("reservoir", _DEFAULT_SIZE, seed)
        store = SampleStore(sample_format(model), storage, FolderSource(incoming))
        rows = NOTHING.rows
        return Client(model, store.samples, rows, seed, settings, optimizer, store, privacy)
    task = model.task
    if task.has_own_data:
        raise InvalidInput(
            "Task.train_data is a list with one dataset for each client, but this is one device: "
            "give its own dataset"
        )
    rows = np.arange(len(task.train))
    return Client(model, task.train, rows, seed, settings, optimizer, privacy=privacy)
