"""Federated averaging of pfl-research with its simulated backend, in one process.

F. Granqvist et al.: pfl-research: simulation framework for accelerating research in Private
Federated Learning. NeurIPS 2024.
"""

from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from contenders.rounds import BATCH_SIZE, CLIENTS, COHORT, RATE, Clock, make_model, start


class WithLoss(nn.Sequential):
    """The model with the methods that pfl-research asks for."""

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return nn.functional.cross_entropy(self(inputs), targets)

    def metrics(self, _inputs: Tensor, _targets: Tensor) -> dict[str, Any]:
        """Return no metrics, because the benchmark evaluates nothing."""
        return {}


class BetweenRounds(TrainingProcessCallback):  # type: ignore[misc]
    """Notes the end of each round on the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        """Wait for the first round."""
        self._clock.wait_for_round(lambda: model.pytorch_model)
        return Metrics()

    def after_central_iteration(
        self,
        aggregate_metrics: Metrics,  # noqa: ARG002  the callback's signature
        model: PyTorchModel,
        *,
        central_iteration: int,  # noqa: ARG002
    ) -> tuple[bool, Metrics]:
        """Report a round and wait for the next one."""
        self._clock.end_round()
        self._clock.wait_for_round(lambda: model.pytorch_model)
        return False, Metrics()


def main() -> None:
    data, clock = start()
    module = WithLoss(make_model())
    samples = {
        client: tuple(part.contiguous() for part in data.of_client(client))
        for client in range(CLIENTS)
    }
    dataset = FederatedDataset.from_slices(samples, get_user_sampler("random", range(CLIENTS)))
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=10**6,
            evaluation_frequency=10**6,  # only in the first round, which warms up
            train_cohort_size=COHORT,
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(training_data=dataset, val_data=dataset),
        model=PyTorchModel(
            model=module,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
        ),
        model_train_params=NNTrainHyperParams(
            local_learning_rate=RATE, local_num_epochs=1, local_batch_size=BATCH_SIZE
        ),
        callbacks=[BetweenRounds(clock)],
    )
