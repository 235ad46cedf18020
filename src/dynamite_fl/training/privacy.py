"""The settings of differential privacy: what each client contributes is clipped and gets noise.

H. B. McMahan, D. Ramage, K. Talwar, L. Zhang: Learning Differentially Private Recurrent Language
Models. ICLR 2018. docs/privacy.md says what is protected, against whom, and what is not. Nothing
here needs PyTorch, so that job files are read at once.
"""

from dataclasses import dataclass

from dynamite_fl._validate import check_name, check_number
from dynamite_fl.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """Protects what each client contributes, by clipping its update and adding noise.

    ``Limits.epsilon`` and ``Limits.delta`` say how much privacy a training may spend.

    Attributes:
        clip_norm: The largest norm of a client's update; a larger one is scaled down. With
            ``clip_quantile``, the clip norm of the first round.
        noise_multiplier: The standard deviation of the noise in the sum of a round's updates,
            divided by the clip norm. None for the smallest with which ``Limits.rounds`` rounds keep
            ``Limits.epsilon``.
        noise_at: Who adds the noise: the ``server``, which is trusted with the updates, or every
            ``node`` a share of it.
        clip_quantile: The share of updates that should not be clipped. The clip norm then follows
            their norms (Andrew et al.: Differentially Private Learning with Adaptive Clipping,
            2021). None to keep the clip norm.

    Example:
        >>> Privacy(clip_norm=1.0, noise_multiplier=1.2).noise_at
        'server'
    """

    clip_norm: float
    noise_multiplier: float | None = None
    noise_at: str = "server"
    clip_quantile: float | None = None

    def __post_init__(self) -> None:
        check_number("Privacy.clip_norm", self.clip_norm, positive=True)
        if self.noise_multiplier is not None:
            check_number("Privacy.noise_multiplier", self.noise_multiplier, positive=True)
        check_name("Privacy.noise_at", self.noise_at, ("server", "node"))
        if self.clip_quantile is None:
            return
        check_number("Privacy.clip_quantile", self.clip_quantile, positive=True)
        if self.clip_quantile >= 1:
            raise InvalidInput(f"Privacy.clip_quantile is {self.clip_quantile:g}: use 0.5, say")
        if self.noise_at == "node":
            raise InvalidInput(
                "Privacy.clip_quantile needs the server to see the norms of updates: leave it out, "
                'or use noise_at = "server"'
            )
