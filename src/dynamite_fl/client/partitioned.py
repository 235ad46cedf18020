"""Clients whose data are parts of one partition, made when they are needed."""

from dataclasses import dataclass, field

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.private_update import NodePrivacy
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.records import IntArray
from dynamite_fl.stream.buffer import Buffer
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.partition import Partition


@dataclass(frozen=True, eq=False)
class PartitionedClients:
    """All clients of a partition; they share the model and the task's training data.

    Attributes:
        model: The model that is trained.
        partition: The samples of each client.
        seed: The seed of the training.
        settings: The settings of a probe.
        streams: When each client's samples arrive and which ones it stores; None if clients have
            all their samples from the start.
        optimizer: What is done with gradients.
        privacy: How clients clip their updates and add noise; None if they do neither.
    """

    model: FlatModel
    partition: Partition
    seed: int
    settings: ProbeSettings
    streams: Streams | None
    optimizer: Optimizer = field(default_factory=Optimizer)
    privacy: NodePrivacy | None = None

    def make(self, client: int) -> Client:
        """Make the client at a place in the fleet."""
        return Client(
            model=self.model,
            samples=self.model.task.train,
            indices=self.partition.indices(client),
            seed=self.seed,
            settings=self.settings,
            optimizer=self.optimizer,
            incoming=None if self.streams is None else StreamedSamples(self.streams, client),
            privacy=self.privacy,
        )


@dataclass(frozen=True, eq=False)
class StreamedSamples:
    """The samples that a simulated stream brings to one client."""

    streams: Streams
    client: int

    def receive(
        self,
        round_index: int,
        buffer: Buffer | None,
        needed: IntArray,  # noqa: ARG002  rows of the task's data always keep their samples
    ) -> tuple[Buffer, IntArray]:
        """Take in the samples that have arrived; see ``IncomingSamples``."""
        return self.streams.receive(self.client, round_index, buffer)
