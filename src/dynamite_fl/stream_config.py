"""The table ``stream`` of a training job: from its keys to ``Streams``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dynamite_fl.config import JobError, table_record
from dynamite_fl.records import IntArray
from dynamite_fl.stream.arrival import Arrivals, Burst, Random, Smooth, Uneven
from dynamite_fl.stream.buffer import Policy, Storage
from dynamite_fl.stream.presets import preset
from dynamite_fl.stream.streams import Order, Orders, Streams

_PATTERNS = {"smooth": "every", "burst": "at", "random": "times"}


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """The table ``stream``, after its preset.

    Attributes:
        arrivals: ``smooth``, ``burst`` or ``random``.
        order: ``iid`` or ``continuous``, class after class.
        initial: Samples at hand before training.
        size: Samples that arrive: each time if smooth, else in all.
        every: The rounds from one arrival to the next, if smooth.
        at: The round of the burst.
        times: In how many portions they arrive, if random.
        rounds: Up to which round they may arrive, if random; without it, the job's rounds.
        spread: How much clients' rates differ, as the deviation of their logarithm.
        most: How many samples reach a client in all, at most; without it, all of its data.
        buffer: ``reservoir``, ``random``, ``fifo`` or ``unbounded``.
        buffer_size: The most samples that a client stores.
    """

    arrivals: str
    order: Order
    initial: int
    size: int
    every: int | None = None
    at: int | None = None
    times: int | None = None
    rounds: int | None = None
    spread: float = 0.0
    most: int | None = None
    buffer: Policy = "reservoir"
    buffer_size: int | None = None


def make_streams(
    table: Mapping[str, Any],
    *,
    pool: Callable[[int], IntArray],
    labels: IntArray,
    dataset: str,
    rounds: int | None,
    seed: int,
) -> Streams:
    """What a table says.

    Args:
        table: Its keys, those of ``StreamSettings`` and ``preset`` and ``scale``.
        pool: All that can reach a client, as rows of the data.
        labels: Of all the data.
        dataset: Its name, by which a preset is chosen.
        rounds: Of the job, if it says.
        seed: Of what is drawn.

    Raises:
        ValueError: Something cannot be used; the message says what to change.
    """
    settings = stream_settings(table, dataset)
    unbounded = settings.buffer == "unbounded"
    return Streams(
        _arrivals(settings, rounds, seed),
        Orders(pool, labels, settings.order, settings.most, seed),
        Storage(settings.buffer, None if unbounded else settings.buffer_size, seed),
    )


def stream_settings(table: Mapping[str, Any], dataset: str) -> StreamSettings:
    """The table, checked, with what its preset says for this dataset."""
    return table_record(StreamSettings, "stream", _spelled_out(table, dataset))


def _spelled_out(table: Mapping[str, Any], dataset: str) -> dict[str, Any]:
    """The table with what its preset says, where it does not say otherwise itself."""
    own = {key: value for key, value in table.items() if key not in ("preset", "scale")}
    if "preset" in table:
        return {**preset(table["preset"], dataset, table.get("scale", 1.0)), **own}
    if "scale" in table:
        raise JobError("stream.scale is for a preset: set stream.preset too, or leave it out")
    return own


def _arrivals(settings: StreamSettings, rounds: int | None, seed: int) -> Arrivals:
    if settings.initial == settings.size == 0:
        raise JobError("no sample ever arrives: set stream.initial or stream.size above 0")
    pattern = _pattern(settings, rounds, seed)
    return Uneven(pattern, settings.spread, seed) if settings.spread else pattern


def _pattern(settings: StreamSettings, rounds: int | None, seed: int) -> Arrivals:
    if settings.arrivals not in _PATTERNS:
        raise JobError(
            f"stream.arrivals is {settings.arrivals!r}: use one of {', '.join(_PATTERNS)}"
        )
    key = _PATTERNS[settings.arrivals]
    when = getattr(settings, key)
    if when is None:
        raise JobError(f"stream.arrivals is {settings.arrivals!r}, which needs stream.{key}")
    for other in {*_PATTERNS.values()} - {key}:
        if getattr(settings, other) is not None:
            raise JobError(
                f"stream.{other} is not for arrivals {settings.arrivals!r}: leave it out"
            )
    amounts = {"initial": settings.initial, "size": settings.size}
    if settings.arrivals == "smooth":
        return Smooth(**amounts, every=when)
    if settings.arrivals == "burst":
        return Burst(**amounts, at=when)
    last = rounds if settings.rounds is None else settings.rounds
    if last is None:
        raise JobError("random arrivals need stream.rounds, as limits.rounds is open")
    return Random(**amounts, times=when, rounds=last, seed=seed)
