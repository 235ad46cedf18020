"""The table ``training`` of a training job."""

from collections.abc import Sequence
from dataclasses import dataclass

from dynamite_fl._validate import check_name, check_number, check_whole
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.errors import InvalidInput
from dynamite_fl.tracking.track import TRACKERS
from dynamite_fl.training.rate_schedule import RateSchedule


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The table ``training``.

    Attributes:
        learning_rate: The step size eta of local steps, the largest one if it changes. Default:
            it is chosen during the training.
        schedule: How the learning rate changes: ``constant``, ``linear`` or ``cosine``.
        warmup: The share of the limits during which the learning rate rises. Default: none.
        final_rate: The learning rate at the end, as a share of ``learning_rate``. It has no effect
            if the schedule is ``constant``.
        seed: The seed of everything that is drawn at random.
        cohort: The number of clients in a round. Default: all.
        select_by: How a cohort is drawn: ``uniform``, or ``data`` for chances in proportion to
            clients' samples.
        evaluate_every: The number of rounds from one evaluation to the next.
        probe_every: The number of rounds from one measurement of the loss to the next.
        probe_gradient: What clients send of the gradient when the loss is measured: ``whole``, or
            a ``sketch`` of at most 251 numbers.
        free_probes: Whether measurements are free, as in the paper's experiments: they cost no
            money and, on simulated devices, no time. Devices then measure exactly as the paper's
            Algorithm 3 does.
        variance_samples: The largest number of samples that a device measures the variance of its
            gradients on.
        loss_rise: A device measures that variance again if the loss of a new batch exceeds that of
            the last batch by more than this, which is the paper's epsilon.
        workers: The number of processes that compute for the clients. Results do not depend on it.
        track: The trackers that record each round: ``tensorboard``, ``mlflow``.
        device: Where models are computed: ``cpu``, ``cuda``, ``mps``, or ``auto`` for the best
            that a machine has.
        precision: ``float32``, or ``bfloat16`` to compute with mixed precision.
        buffers: What happens to a model's buffers, such as the statistics of batch normalisation:
            ``average`` them as weights are, or leave them ``local`` on each device.
    """

    learning_rate: float | None = None
    schedule: str = "constant"
    warmup: float = 0.0
    final_rate: float = 0.01
    seed: int = 0
    cohort: int | None = None
    select_by: str = "uniform"
    evaluate_every: int = 1
    probe_every: int = 1
    probe_gradient: str = "whole"
    free_probes: bool = False
    variance_samples: int = ProbeSettings.variance_samples
    loss_rise: float = ProbeSettings.loss_rise
    workers: int = 1
    track: Sequence[str] = ()
    device: str = "cpu"
    precision: str = "float32"
    buffers: str = "average"

    def __post_init__(self) -> None:
        # The schedule checks its own settings, whatever the rate.
        known = 1.0 if self.learning_rate is None else self.learning_rate
        rate = RateSchedule(known, self.schedule, self.warmup, self.final_rate)
        if self.learning_rate is None and not rate.is_constant:
            raise InvalidInput(
                "training.schedule and training.warmup need training.learning_rate: without it, "
                "the rate of each round is chosen"
            )
        check_whole("training.seed", self.seed, least=0, most=2**53)
        if self.cohort is not None:
            check_whole("training.cohort", self.cohort)
        for name in ("evaluate_every", "probe_every", "workers"):
            check_whole(f"training.{name}", getattr(self, name))
        check_whole("training.variance_samples", self.variance_samples, least=2)
        check_number("training.loss_rise", self.loss_rise)
        check_name("training.select_by", self.select_by, ("uniform", "data"))
        check_name("training.probe_gradient", self.probe_gradient, ("whole", "sketch"))
        check_name("training.device", self.device, ("cpu", "cuda", "mps", "auto"))
        check_name("training.buffers", self.buffers, ("average", "local"))
        check_name("training.precision", self.precision, ("float32", "bfloat16"))
        if not isinstance(self.free_probes, bool):
            raise InvalidInput(f"training.free_probes is {self.free_probes!r}: use true or false")
        if isinstance(self.track, str) or not isinstance(self.track, Sequence):
            raise InvalidInput("training.track must be a list of trackers")
        for name in self.track:
            check_name("tracker", name, TRACKERS)

    @property
    def rate_schedule(self) -> RateSchedule | None:
        """The learning rate of each round; None if it is to be chosen."""
        if self.learning_rate is None:
            return None
        return RateSchedule(self.learning_rate, self.schedule, self.warmup, self.final_rate)

    @property
    def probe_settings(self) -> ProbeSettings:
        """How devices measure the loss."""
        return ProbeSettings(
            variance_samples=self.variance_samples,
            loss_rise=self.loss_rise,
            only_sketches=self.sends_sketches,
        )

    @property
    def sends_sketches(self) -> bool:
        """Whether clients send sketches of gradients instead of gradients."""
        return self.probe_gradient == "sketch"
