"""The settings of a stream: the ``[stream]`` table of a job, and ``Stream`` in Python."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal, get_args

from numpy.typing import NDArray

from dynamite_fl._validate import check_keys, check_name, check_number, check_whole
from dynamite_fl.errors import InvalidInput, JobError
from dynamite_fl.records import IntArray
from dynamite_fl.stream.arrivals import Arrivals, Burst, Random, Smooth, Uneven
from dynamite_fl.stream.buffer import Policy, Storage, check_buffer
from dynamite_fl.stream.order import ORDERS, Order, Orders
from dynamite_fl.stream.presets import preset
from dynamite_fl.stream.streams import Streams

Pattern = Literal["smooth", "burst", "random"]
# The field that says when samples arrive, for each pattern.
_TIMING: dict[Pattern, str] = {"smooth": "every", "burst": "at", "random": "times"}


@dataclass(frozen=True, kw_only=True)
class Stream:
    """How training samples reach the clients over time, and how many a client stores.

    Attributes:
        arrivals: The pattern: ``smooth``, ``burst`` or ``random``.
        order: ``iid`` for a random order, ``balanced`` for one with equally many samples of each
            class at any time, ``continuous`` for one class after the other.
        initial: The number of samples that a client has before training.
        size: The number of samples that arrive: each time if smooth, otherwise in all.
        every: If smooth, the number of rounds from one arrival to the next.
        at: If burst, the round in which the samples arrive.
        times: If random, the number of portions in which the samples arrive.
        rounds: If random, the last round in which samples may arrive. Default: the rounds of the
            training.
        spread: The standard deviation of the logarithm of the clients' rates: each client's
            numbers of samples are multiplied by its rate. Default: all rates are 1.
        max_samples: The most samples that reach a client in all. Default: all of its samples.
        buffer: Which samples a client stores: ``reservoir`` gives every sample that has arrived
            the same probability, ``random`` stores new samples in place of random ones, ``fifo``
            in place of the oldest, and ``unbounded`` stores all.
        buffer_size: The most samples that a client stores. Ignored if unbounded.

    Example:
        >>> stream = Stream(
        ...     arrivals="smooth", order="iid", initial=100, size=50, every=10, buffer_size=200
        ... )
        >>> stream.to_table()["every"]
        10
    """

    arrivals: Pattern
    order: Order
    initial: int
    size: int
    every: int | None = None
    at: int | None = None
    times: int | None = None
    rounds: int | None = None
    spread: float = 0.0
    max_samples: int | None = None
    buffer: Policy = "reservoir"
    buffer_size: int | None = None

    def __post_init__(self) -> None:
        check_name("stream.arrivals", self.arrivals, get_args(Pattern))
        check_name("stream.order", self.order, ORDERS)
        self._check_timing()
        for name, least in (("initial", 0), ("size", 0), (_TIMING[self.arrivals], 1)):
            check_whole(f"stream.{name}", getattr(self, name), least=least)
        if self.initial == self.size == 0:
            raise InvalidInput("no sample ever arrives: set stream.initial or stream.size above 0")
        for name in ("rounds", "max_samples"):
            if getattr(self, name) is not None:
                check_whole(f"stream.{name}", getattr(self, name))
        check_number("stream.spread", self.spread)
        check_buffer(self.buffer, self.capacity)

    def _check_timing(self) -> None:
        """Refuse settings without the timing of the pattern, or with that of another one."""
        needed = _TIMING[self.arrivals]
        if getattr(self, needed) is None:
            raise InvalidInput(f"stream.arrivals {self.arrivals!r} needs stream.{needed}")
        for other in _TIMING.values():
            if other != needed and getattr(self, other) is not None:
                raise InvalidInput(
                    f"stream.{other} is not for arrivals {self.arrivals!r}: leave it out"
                )

    @property
    def capacity(self) -> int | None:
        """The most samples that a client stores; None for no limit."""
        return None if self.buffer == "unbounded" else self.buffer_size

    @classmethod
    def preset(cls, name: str, dataset: str = "mnist", scale: float = 1.0) -> "Stream":
        """Return one of the paper's streams: smooth-i, smooth-c, burst or random.

        Args:
            name: The name of the stream.
            dataset: The name of the dataset. ``cifar10`` has settings of its own.
            scale: The factor of both samples and rounds, above 0 and at most 1.

        Example:
            >>> Stream.preset("smooth-c", dataset="cifar10", scale=0.1).size
            300
        """
        return cls(**preset(name, dataset, scale))

    @classmethod
    def from_table(cls, table: object, dataset: str = "mnist") -> "Stream":
        """Read the ``[stream]`` table of a job.

        Args:
            table: The fields of ``Stream``. With the keys ``preset`` and ``scale``, fields that
                the table does not set are those of the preset.
            dataset: The name of the dataset, which a preset may depend on.

        Raises:
            InvalidInput: The table cannot be used; the message says what to change.

        Example:
            >>> Stream.from_table({"preset": "burst", "scale": 0.1, "buffer": "fifo"}).at
            50
        """
        if not isinstance(table, Mapping):
            raise JobError('stream must be a table such as { preset = "smooth-i" }')
        names = [field.name for field in fields(cls)]
        check_keys("stream", table, ["preset", "scale", *names])
        settings = {key: value for key, value in table.items() if value is not None}
        name, scale = settings.pop("preset", None), settings.pop("scale", None)
        if name is not None:
            settings = {**preset(name, dataset, 1.0 if scale is None else scale), **settings}
        elif scale is not None:
            raise JobError("stream.scale needs stream.preset: set it too, or leave the scale out")
        needed = [field.name for field in fields(cls) if field.default is MISSING]
        check_keys("stream", settings, names, needed)
        return cls(**settings)

    @property
    def uses_labels(self) -> bool:
        """Whether the order of samples depends on their labels."""
        return self.order != "iid"

    def to_table(self) -> dict[str, Any]:
        """Return the settings as the ``[stream]`` table of a job, without those that are None."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def build(
        self,
        pool: Callable[[int], IntArray],
        labels: NDArray[Any],
        rounds: int | None,
        seed: int,
    ) -> Streams:
        """Make the streams of all clients.

        Args:
            pool: The function from a client to the rows of the data that can reach it, such as
                ``Partition.indices``.
            labels: The targets of all the data, (D, ...). The order ``iid`` does not use them; the
                others need whole-number labels, (D,).
            rounds: The rounds of the training; None if they are not limited.
            seed: The seed of all draws.

        Raises:
            InvalidInput: The order needs labels and there are none, or random arrivals have no
                last round.

        Example:
            >>> import numpy as np
            >>> stream = Stream.preset("smooth-i", scale=0.001)
            >>> labels = np.arange(40) % 10
            >>> streams = stream.build(lambda client: np.arange(40), labels, 10, seed=0)
            >>> streams.seen(np.array([0, 1]), round_index=3)
            array([20, 20])
        """
        return Streams(
            self._arrivals(rounds, seed),
            Orders(pool, labels, self.order, self.max_samples, seed),
            self.storage(seed),
        )

    def storage(self, seed: int) -> Storage:
        """Return how clients store samples."""
        return Storage(self.buffer, self.capacity, seed)

    def _arrivals(self, rounds: int | None, seed: int) -> Arrivals:
        pattern = self._pattern(rounds, seed)
        return Uneven(pattern, self.spread, seed) if self.spread else pattern

    def _pattern(self, rounds: int | None, seed: int) -> Arrivals:
        amounts = {"initial": self.initial, "size": self.size}
        if self.every is not None:
            return Smooth(**amounts, every=self.every)
        if self.at is not None:
            return Burst(**amounts, at=self.at)
        last = rounds if self.rounds is None else self.rounds
        if self.times is None or last is None:
            raise InvalidInput(
                "stream.arrivals 'random' needs stream.rounds, as limits.rounds is not set"
            )
        return Random(**amounts, times=self.times, rounds=last, seed=seed)
