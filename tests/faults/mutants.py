"""Mutants of job files: values of wrong types, odd numbers, missing keys and damaged text."""

import copy
import datetime
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# A job with all tables and most of their keys; one round of a small model.
WHOLE: dict[str, Any] = {
    "task": {"model": "softmax", "dataset": "digits"},
    "partition": {"kind": "dirichlet", "alpha": 0.5},
    "devices": {
        "samples_per_second": [100, 200, 400],
        "step_overhead": [0.01, 0.01, 0.02],
        "latency": 0.1,
        "bandwidth": [4e5, 4e5, 3e5],
        "jitter": 0.1,
        "comm_jitter": 0.1,
        "availability": 0.9,
        "name": ["a", "b", "c"],
        "trace": [0, 0, -1],
        "traces": [{"seconds": [0, 60], "mbps": [4, 8]}],
    },
    "limits": {
        "rounds": 1,
        "deadline": 30,
        "budget": 30.0,
        "cost_per_sample": 0.001,
        "cost_per_round": 1,
        "max_local_steps": 5,
    },
    "stream": {
        "arrivals": "smooth",
        "order": "iid",
        "initial": 20,
        "size": 10,
        "every": 2,
        "spread": 0.1,
        "max_samples": 50,
        "buffer": "fifo",
        "buffer_size": 30,
    },
    "controller": {"name": "fedavg", "local_steps": 2, "batch_size": 8},
    "optimizer": {
        "name": "AdamW",
        "weight_decay": 0.01,
        "eps": 1e-8,
        "betas": [0.9, 0.99],
        "amsgrad": False,
        "clip_norm": 1.0,
        "proximal": 0.1,
        "keep_state": False,
    },
    "server": {"name": "fedadam", "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 0.001},
    "training": {
        "learning_rate": 0.05,
        "schedule": "cosine",
        "warmup": 0.1,
        "final_rate": 0.1,
        "seed": 1,
        "cohort": 2,
        "select_by": "uniform",
        "evaluate_every": 1,
        "probe_every": 1,
        "probe_gradient": "whole",
        "free_probes": False,
        "workers": 1,
        "track": [],
        "device": "cpu",
        "precision": "float32",
        "buffers": "average",
    },
}
# Short forms of the same, and other kinds of what can be named.
SHORT: dict[str, Any] = {
    "task": {"model": "softmax", "dataset": "digits"},
    "devices": {"fleet": "phones", "clients": 5},
    "limits": {
        "rounds": 1,
        "deadline": 90,
        "budget": 90,
        "cost_per_sample": 0,
        "cost_per_round": 1,
    },
    "controller": {"name": "fixed", "local_steps": 2, "batch_size": 8},
    "partition": {"kind": "wang", "case": 1},
    "stream": {"preset": "smooth-i", "scale": 0.01, "buffer_size": 40},
    "training": {"learning_rate": 0.05},
}
PARTITIONS: list[dict[str, Any]] = [
    {"kind": "shards", "per_client": 2},
    {"kind": "unequal", "spread": 0.5},
]
PLANNING: dict[str, Any] = {
    "limits": {"rounds": 3, "deadline": 50.0, "budget": 99.0, "cost_per_sample": 0.001,
               "cost_per_round": 2.0, "max_local_steps": 5},
    "geometry": {"learning_rate": 0.005, "quadratic_bound": 5.0, "smoothness": 2.0,
                 "pl_constant": 0.05, "divergence": 2.0, "loss_gap": 2.3},
    "fleet": {"name": ["a", "b"], "samples": [3900, 1200], "gradient_variance": [14.2, 6.1],
              "samples_per_second": [142, 151], "step_overhead": 0.01, "comm_seconds": [0.3, 0.2]},
}  # fmt: skip


class Raw(str):
    """Text that stands in a job file as it is."""


DAY = datetime.date(2026, 1, 31)
_OF_NO_NUMBER: list[Any] = [
    "abc",
    "1",
    "",
    True,
    False,
    DAY,
    {},
    {"a": 1},
    [["x"]],
    Raw("07:32:00"),
]
_DEEP = Raw("[" * 20_000 + "]" * 20_000)
_ODD_NUMBERS: list[Any] = [0, -1, 1e308, 10**400, 1e-320, Raw("inf"), Raw("nan"), Raw("-inf"), 0.5]


@dataclass(frozen=True)
class Mutant:
    """A job file that is not what it was.

    Attributes:
        what: What was changed.
        text: The content of the file.
        is_wrong: Whether it must be refused, because a value has a wrong type.
    """

    what: str
    text: str
    is_wrong: bool


def mutants(tables: dict[str, Any], seed: int, count: int) -> Iterator[Mutant]:
    """Yield mutants of a job, three quarters of them with a value of a wrong type."""
    chance = random.Random(seed)  # noqa: S311  nothing here is secret
    paths = list(_paths(tables))
    for number in range(count):
        path = chance.choice(paths)
        if number % 4:
            yield _with(tables, path, chance.choice(_wrong_for(path, _at(tables, path))), True)
        elif number % 8:
            yield _odd(tables, path, chance)
        else:
            yield _damaged(to_toml(tables), chance)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a table: keys, and places in lists."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _paths(entry, (*path, key))
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            yield from _paths(entry, (*path, place))


def _at(tables: Any, path: Sequence[Any]) -> Any:
    for step in path:
        tables = tables[step]
    return tables


def _wrong_for(path: Sequence[Any], value: Any) -> list[Any]:
    """Return values of other types than the right ones at a path."""
    if isinstance(value, bool):
        return [0, 1, 1.5, "true", DAY, [], {}, _DEEP]
    if isinstance(value, int | float):
        whole = [1.5, 2.0] if path[-1] in _WHOLE_NUMBERS else []
        return [*_OF_NO_NUMBER, _DEEP, *whole]
    if isinstance(value, str):
        return [3, 1.5, True, DAY, [], {}, ["a"], _DEEP]
    if isinstance(value, list):
        entry = [{"a": 1}] if path[-1] != "traces" else [[1]]
        return ["abc", True, DAY, {"a": 1}, _DEEP, [*value[:-1], *entry], [*value, DAY]]
    return [3, True, DAY, [], [1], _DEEP, Raw('"no such name"')]


_WHOLE_NUMBERS = (
    "rounds", "max_local_steps", "initial", "size", "every", "max_samples", "buffer_size",
    "local_steps", "batch_size", "seed", "cohort", "evaluate_every", "probe_every", "workers",
    "clients", "case", "per_client",
)  # fmt: skip


def _with(tables: dict[str, Any], path: Sequence[Any], value: Any, is_wrong: bool) -> Mutant:
    mutated = copy.deepcopy(tables)
    _at(mutated, path[:-1])[path[-1]] = value
    shown = f"{str(value)[:20]!r}" if isinstance(value, str) else repr(value)[:40]
    return Mutant(f"{'.'.join(map(str, path))} = {shown}", to_toml(mutated), is_wrong)


def _odd(tables: dict[str, Any], path: Sequence[Any], chance: random.Random) -> Mutant:
    """Return a mutant with an odd number, or without a key; it may be a job that can be used."""
    value = _at(tables, path)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _with(tables, path, chance.choice(_ODD_NUMBERS), False)
    mutated = copy.deepcopy(tables)
    del _at(mutated, path[:-1])[path[-1]]
    return Mutant(f"no {'.'.join(map(str, path))}", to_toml(mutated), False)


def _damaged(text: str, chance: random.Random) -> Mutant:
    """Return a mutant whose text is cut off, or has other letters or a piece twice."""
    place = chance.randrange(len(text))
    piece = text[place : place + chance.randrange(1, 30)]
    choices = {
        "cut off": text[:place],
        "a letter": text[:place] + chr(chance.choice([0, 9, 34, 61, 91, 93, 0xE4])) + text[place:],
        "a piece twice": text[:place] + piece + text[place:],
        "without a piece": text.replace(piece, "", 1),
    }
    how = chance.choice(list(choices))
    return Mutant(f"{how} at {place}", choices[how], False)


def to_toml(tables: dict[str, Any]) -> str:
    """Write a job as a file; nothing here is of the package, whose writer is not tested here."""
    plain = [f"{key} = {_value(each)}" for key, each in tables.items() if not _is_table(each)]
    blocks = [
        "\n".join([f"[{name}]", *(f"{key} = {_value(each)}" for key, each in table.items())])
        for name, table in tables.items()
        if _is_table(table)
    ]
    return "\n".join([*plain, *blocks]) + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _value(value: Any) -> str:
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return str(value) if isinstance(value, datetime.date) else json.dumps(value)
