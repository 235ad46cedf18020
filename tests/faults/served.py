"""A training on real nodes with a ledger of privacy, in this process and without a network."""

import json
from pathlib import Path

from dynamite_fl import Limits, Privacy
from dynamite_fl.flower import Result, train
from dynamite_fl.training.round_record import RoundRecord
from tests.flower.fleet import CLIENTS, grid
from tests.trainings import RATE, digits

ROUNDS, LAST = 4, 3  # rounds of the training, and the one in which it was killed


class Killed(BaseException):
    """The server ends here, as a kill would end it."""


def trained(folder: Path, nodes: Path, seed: int = 0, killed_in: int | None = None) -> Result:
    """Train, or go on with what a folder holds.

    Args:
        folder: The run folder.
        nodes: The folder of the nodes' states.
        seed: The seed, which tells trainings apart.
        killed_in: The round whose checkpoint is never written; None to train to the end.

    Raises:
        Killed: The training got to this round.
    """

    def kill(record: RoundRecord) -> None:
        if record.round == killed_in:
            raise Killed

    return train(
        grid(nodes),
        digits("perceptron"),
        Limits(
            rounds=ROUNDS,
            deadline=1e6,
            budget=1e6,
            cost_per_sample=0.001,
            cost_per_round=1.0,
            delta=0.01,
        ),
        clients=CLIENTS,
        learning_rate=RATE,
        seed=seed,
        controller="fedavg",
        privacy=Privacy(clip_norm=1.0, noise_multiplier=2.0),
        folder=folder,
        on_round=kill,
    )


def begun(folder: Path, nodes: Path, seed: int) -> Path:
    """Return the folder of a training that was killed: its last round is not in the checkpoint."""
    try:
        trained(folder, nodes, seed, killed_in=LAST)
    except Killed:
        return folder
    raise AssertionError("the training was not killed")


def names_in(folder: Path) -> list[str]:
    """Return the names of the nodes, by client index."""
    names: list[str] = json.loads((folder / "nodes.json").read_text())["names"]
    return names
