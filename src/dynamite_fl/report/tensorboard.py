"""Rounds for TensorBoard, in ``tensorboard/`` of the run's folder."""

from torch.utils.tensorboard import SummaryWriter

from dynamite_fl.report.history import Line
from dynamite_fl.report.tracking import Tracked, metrics

_SECONDS_BETWEEN_WRITES = 10


class TensorBoard:
    """Event files that are made anew from the history whenever a training goes on.

    Events cannot be taken back one by one, and those of rounds that a resume plays once more would
    be there twice.
    """

    def __init__(self, tracked: Tracked) -> None:
        folder = tracked.folder / "tensorboard"
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self.last_round = 0
        self._writer = SummaryWriter(str(folder), flush_secs=_SECONDS_BETWEEN_WRITES)
        self._writer.add_text("job", f"```\n{tracked.job}```")

    def record(self, line: Line) -> None:
        """Take down a round."""
        for name, value in metrics(line).items():
            self._writer.add_scalar(name, value, line["round"])
        self.last_round = line["round"]

    def close(self, error: BaseException | None) -> None:  # noqa: ARG002  a tracker takes it
        """Write what is left."""
        self._writer.close()
