"""What a training returns: the trained model and its history."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from dynamite_fl._format import metric_value
from dynamite_fl.task.task import Task
from dynamite_fl.training.history import History
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Outcome
from dynamite_fl.training.training import Training


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a training.

    Attributes:
        model: The trained model, in evaluation mode.
        history: One record per round.
        stopped_by: The limit that ended the training: ``rounds``, ``deadline``, ``budget`` or
            ``epsilon``.
        folder: The run folder; None if the training was not kept in one.
    """

    model: nn.Module
    history: History
    stopped_by: str
    folder: Path | None

    def __repr__(self) -> str:
        """Return a short description, for notebooks."""
        figures = ", ".join(
            f"{name} {metric_value(name, value)}" for name, value in self.metrics.items()
        )
        where = "" if self.folder is None else f", in {self.folder}"
        rounds = f"{len(self.history)} rounds, ended by {self.stopped_by}"
        return f"<Result: {figures} after {rounds}{where}>"

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """The trained weights by their names."""
        return self.model.state_dict()

    @property
    def metrics(self) -> dict[str, float]:
        """All metrics and the ``loss`` on the test data, from the last evaluation.

        The leading metric is the first. A metric that is not finite is NaN.
        """
        return self.history.final_metrics

    @property
    def worst_client(self) -> tuple[int, float] | None:
        """The client whose leading metric is the worst on its own test data, and that metric.

        It is None if ``Task.test_data`` is not a list with one entry for each client.
        """
        return self.history.worst_client


def result_of(
    training: Training, task: Task, seed: int, outcome: Outcome, folder: RunFolder | None
) -> Result:
    """Return the result of a session that has reached its end.

    Raises:
        KeyboardInterrupt: The session was interrupted.
    """
    if outcome.stopped_by is None:
        raise KeyboardInterrupt
    model = task.new_model(seed)  # its initial weights are replaced by the trained ones
    model.load_state_dict(training.engine.state_dict(outcome.weights))
    path = None if folder is None else folder.path
    return Result(model.eval(), outcome.history, outcome.stopped_by, path)
