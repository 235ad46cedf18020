"""The settings of probes. They need no PyTorch, so that jobs can be read without it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProbeSettings:
    """Settings of a client's measurements.

    Attributes:
        variance_samples: The largest number of samples that M_i is measured on.
        drift_samples: The largest number of new samples that the drift is measured on.
        loss_rise: The threshold epsilon of Algorithm 3: M_i is measured again if the loss of a new
            batch exceeds that of the old batch by more, both at the same global model.
        only_sketches: Whether a device refuses every order to send a whole gradient.
    """

    variance_samples: int = 64
    drift_samples: int = 64
    loss_rise: float = 0.2
    only_sketches: bool = False

    def most_samples(self, *, streams: bool) -> int:
        """Return the largest number of samples that one probe computes on beside local steps.

        These are the samples of M_i, those of a new batch whose loss is compared, and the new
        samples whose drift is measured.

        Args:
            streams: Whether samples may arrive.
        """
        return 2 * self.variance_samples + (self.drift_samples if streams else 0)
