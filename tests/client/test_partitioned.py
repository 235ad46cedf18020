"""Clients whose data are parts of one partition."""

import numpy as np
import pytest

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.partitioned import PartitionedClients
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.partitions import wang
from tests.trainings import STREAM, digits, streams_of


@pytest.mark.parametrize("streaming", [False, True])
def test_clients_share_the_model_and_have_their_own_samples(streaming: bool) -> None:
    task = digits()
    partition = wang(case=1).split(task.train_labels(), 3, seed=0)
    streams = streams_of(STREAM, task, partition, seed=0) if streaming else None
    clients = PartitionedClients(FlatModel(task, seed=0), partition, 7, ProbeSettings(), streams)
    made = [clients.make(place) for place in range(3)]
    for place, client in enumerate(made):
        assert isinstance(client, Client)
        assert client.model is clients.model
        assert client.samples is task.train
        np.testing.assert_array_equal(client.indices, partition.indices(place))
        assert (client.incoming is not None) == streaming


def test_samples_arrive_as_the_stream_says() -> None:
    task = digits()
    partition = wang(case=1).split(task.train_labels(), 3, seed=0)
    streams = streams_of(STREAM, task, partition, seed=0)
    clients = PartitionedClients(FlatModel(task, seed=0), partition, 7, ProbeSettings(), streams)
    incoming = clients.make(1).incoming
    assert incoming is not None
    buffer, fresh = incoming.receive(1, None, np.empty(0, dtype=np.int64))
    expected, expected_fresh = streams.receive(1, 1, None)
    np.testing.assert_array_equal(buffer.rows, expected.rows)
    np.testing.assert_array_equal(fresh, expected_fresh)
