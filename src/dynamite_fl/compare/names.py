"""The names of contenders: a method, and the rates that it is run at."""

import re
from dataclasses import dataclass

from dynamite_fl.errors import JobError
from dynamite_fl.training.server_optimizer import SERVER_OPTIMIZERS

SERVERS = tuple(name for name in SERVER_OPTIMIZERS if name != "average")  # each with FedAvg
_RATE = r"[0-9.]+(?:e[+-]?[0-9]+)?"
_RATES = re.compile(rf"(?P<rate>{_RATE})(x(?P<server_rate>{_RATE}))?")


@dataclass(frozen=True)
class ContenderName:
    """The name of a contender, in parts.

    Attributes:
        method: A controller or a server optimiser.
        rate: The learning rate of local steps; None for the job's own.
        server_rate: The learning rate of the server; None for the server optimiser's own.

    Example:
        >>> ContenderName.parse("fedadam@0.10x0.01")
        ContenderName(method='fedadam', rate=0.1, server_rate=0.01)
        >>> str(ContenderName("fedavg", 0.1)), str(ContenderName("fedavg"))
        ('fedavg@0.1', 'fedavg')
    """

    method: str
    rate: float | None = None
    server_rate: float | None = None

    @classmethod
    def parse(cls, text: str) -> "ContenderName":
        """Read a name.

        Raises:
            JobError: What follows the ``@`` is not a rate or two.
        """
        method, at, rates = text.partition("@")
        if not at:
            return cls(method)
        match = _RATES.fullmatch(rates)
        try:
            if match is None:
                raise ValueError(rates)
            given = [float(text) for text in match.group("rate", "server_rate") if text is not None]
            if not all(0 < rate < float("inf") for rate in given):
                raise ValueError(rates)
        except ValueError:
            raise JobError(
                f"{text!r} has no learning rate after the @: use a positive number as in "
                f"{method}@0.1, or two, the second one for the server, as in fedadam@0.1x0.01"
            ) from None
        return cls(method, *given)

    def __str__(self) -> str:
        rates = [f"{rate:g}" for rate in (self.rate, self.server_rate) if rate is not None]
        return "@".join([self.method, *(["x".join(rates)] if rates else [])])


def rates_in(contender: str) -> str:
    """Return what a contender's name says of rates; nothing if it has none.

    Example:
        >>> rates_in("fedadam@0.1x0.01"), rates_in("fedavg@0.1+fifo"), rates_in("me@home")
        ('0.1x0.01', '0.1', '')
    """
    match = _RATES.match(contender.partition("@")[2].partition("+")[0])
    return "" if match is None else match[0]


def method_of(contender: str) -> str:
    """Return the method of a contender's name, whatever its rates and its buffer are.

    Example:
        >>> method_of("fedavg@0.1"), method_of("fedavg+fifo"), method_of("fixed-2x60@0.1")
        ('fedavg', 'fedavg', 'fixed-2x60')
    """
    return re.split(r"[@+]", contender)[0]
