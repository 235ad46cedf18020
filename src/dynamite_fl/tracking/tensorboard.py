"""The tracker TensorBoard: event files in ``tensorboard/`` of the run folder."""

from torch.utils.tensorboard import SummaryWriter

from dynamite_fl.tracking.tracker import TrackedRun, round_metrics
from dynamite_fl.training.round_record import RoundRecord

_SECONDS_BETWEEN_WRITES = 10


class TensorBoard:
    """Event files, which are written anew from the history whenever a training resumes.

    Single events cannot be removed. If the files were kept, rounds that are played again after a
    resume would be in them twice.
    """

    def __init__(self, run: TrackedRun) -> None:
        folder = run.folder / "tensorboard"
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self.last_round = 0
        self._leading_metric = run.leading_metric
        self._writer = SummaryWriter(str(folder), flush_secs=_SECONDS_BETWEEN_WRITES)
        self._writer.add_text("job", f"```\n{run.job}```")

    def record(self, record: RoundRecord) -> None:
        """Record a round."""
        for name, value in round_metrics(record, self._leading_metric).items():
            self._writer.add_scalar(name, value, record.round)
        self.last_round = record.round

    def close(self, error: BaseException | None) -> None:  # noqa: ARG002  the protocol has it
        """Write what is left."""
        self._writer.close()
