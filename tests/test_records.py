import math
from typing import Any

import numpy as np
import pytest

from dynamite_fl import Fleet, Limits, LossGeometry
from dynamite_fl.records import LearningRateWarning

FLEET: dict[str, Any] = {
    "samples": [10, 20],
    "gradient_variance": [1, 2],
    "samples_per_second": [5, 6],
    "step_overhead": [0, 0.1],
    "comm_seconds": [0.2, 0.3],
}
LIMITS: dict[str, Any] = {
    "rounds": 5,
    "deadline": 10,
    "budget": 20,
    "cost_per_sample": 0.1,
    "cost_per_round": 1,
    "max_local_steps": 3,
}
GEOMETRY: dict[str, Any] = {
    "learning_rate": 0.01,
    "quadratic_bound": 1,
    "smoothness": 1,
    "pl_constant": 0.1,
    "divergence": 1,
    "loss_gap": 2,
}


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("samples", [], "is empty"),
        ("samples", 7, "one entry for each"),
        ("samples", [10, 0], r"\[1\] is 0"),
        ("samples", [10, 2.5], r"\[1\] is 2.5: it must be a whole number"),
        ("samples", ["many", 3], "must be a number for each"),
        ("samples", [[1, 2], [3]], "must be a number for each"),
        ("samples_per_second", [-1, 3], r"\[0\] is -1"),
        ("samples_per_second", [5, math.nan], r"\[1\] is nan"),
        ("samples_per_second", 0, r"\[0\] is 0"),
        ("samples_per_second", [1, 2, 3], "has 3 entries, but 2 are needed"),
        ("samples_per_second", [5], "has 1 entries"),
        ("gradient_variance", [1, -2], r"\[1\] is -2"),
        ("gradient_variance", [1, math.inf], r"\[1\] is inf"),
        ("step_overhead", [-0.1, 0], r"\[0\] is -0.1"),
        ("comm_seconds", [0, math.nan], r"\[1\] is nan"),
        ("comm_seconds", None, r"must be|is nan"),
        ("buffer_size", [0, 5], r"\[0\] is 0"),
        ("buffer_size", [1.5, 5], "whole number"),
        ("least_batch", [0, 5], r"\[0\] is 0"),
        ("least_batch", [1.5, 5], "whole number"),
        ("name", ["a"], "a list of 2 names"),
        ("name", ["a", "a"], "'a' twice"),
        ("name", "ab", "a list of 2 names"),
        ("name", 5, "a list of 2 names"),
        ("name", [["a"], ["b"]], "printable text"),
        ("name", ["a", "b\x1b[1m"], "printable text"),
        ("samples", [10**400, 3], "must be a number for each"),
    ],
)
def test_bad_fleets_are_refused_by_field(field: str, value: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"Fleet\.{field}.*{complaint}"):
        Fleet(**{**FLEET, field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, value) for field in ("deadline", "budget") for value in (0, -1, math.nan, "1")),
        *((field, -1) for field in ("cost_per_sample", "cost_per_round")),
        *((field, math.inf) for field in ("cost_per_sample", "cost_per_round")),
        *((field, value) for field in ("rounds", "max_local_steps") for value in (2.5, True)),
        ("deadline", True),
        ("max_local_steps", None),
    ],
)
def test_bad_limits_are_refused_by_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"Limits\.{field} is {value!r}"):
        Limits(**{**LIMITS, field: value})


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("rounds", 0, "from 1 to 1,000,000,000"),
        ("rounds", 10**10, "from 1 to"),
        ("max_local_steps", 10**6, "from 1 to 100,000"),
        ("deadline", 10**400, "a number of 401 digits"),
    ],
)
def test_limits_beyond_reason_are_refused(field: str, value: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"Limits\.{field} .*{complaint}"):
        Limits(**{**LIMITS, field: value})


@pytest.mark.parametrize("field", list(GEOMETRY))
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "0.1", None])
def test_bad_geometry_is_refused_by_field(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"LossGeometry\.{field} is "):
        LossGeometry(**{**GEOMETRY, field: value})


def test_a_learning_rate_beyond_the_proof_is_warned_of() -> None:
    with pytest.warns(LearningRateWarning, match=r"LossGeometry\.learning_rate is 0\.3") as caught:
        LossGeometry(**{**GEOMETRY, "learning_rate": 0.3, "smoothness": 5})
    assert caught[0].filename == __file__
    LossGeometry(**{**GEOMETRY, "learning_rate": 0.2, "smoothness": 5})  # just at 1/beta


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_columns_come_as_lists_or_arrays(kind: Any) -> None:
    fleet = Fleet(**{field: kind(values) for field, values in FLEET.items()})
    assert fleet.samples_per_second.tolist() == [5, 6]
    assert fleet.buffer_size is None


def test_columns_are_copies_that_cannot_be_written() -> None:
    mine = np.array([10.0, 20.0])
    fleet = Fleet(**{**FLEET, "samples": mine})
    mine[0] = 99
    assert fleet.samples[0] == 10
    with pytest.raises(ValueError, match="read-only"):
        fleet.samples[0] = 1
    with pytest.raises(AttributeError):
        fleet.samples = mine  # type: ignore[misc]


def test_what_a_batch_can_be_drawn_from() -> None:
    assert Fleet(**FLEET).at_hand.tolist() == [10, 20]
    assert Fleet(**FLEET, buffer_size=15).at_hand.tolist() == [10, 15]


def test_the_least_batch_is_one_sample_or_what_is_given_or_all_that_is_there() -> None:
    assert Fleet(**FLEET).least_batches.tolist() == [1, 1]
    fleet = Fleet(**FLEET, least_batch=12)
    assert fleet.least_batches.tolist() == [10, 12]
    assert fleet.subset(np.array([1])).least_batches.tolist() == [12]
    assert Fleet(**FLEET, least_batch=[2, 12], buffer_size=7).least_batches.tolist() == [2, 7]


def test_a_subset_of_clients() -> None:
    fleet = Fleet(**FLEET, name=["ward", "lab"])
    assert fleet.subset(np.array([1])).name == ("lab",)
    unnamed = Fleet(**FLEET).subset(np.array([1, 0]))
    assert unnamed.comm_seconds.tolist() == [0.3, 0.2]
    assert unnamed.label(0) == "client 1"


def test_a_section_of_clients_has_no_names() -> None:
    section = Fleet(**FLEET, name=["ward", "lab"]).section(slice(0, 1))
    assert (section.samples.tolist(), section.name) == ([10], None)


def test_other_columns() -> None:
    fleet = Fleet(**FLEET, name=["ward", "lab"])
    faster = fleet.with_columns(samples_per_second=2 * fleet.samples_per_second)
    assert (faster.samples_per_second == 2 * fleet.samples_per_second).all()
    assert (faster.name, faster.samples.tolist()) == (fleet.name, [10, 20])


def test_a_client_is_shown_by_its_name_or_its_number() -> None:
    assert Fleet(**FLEET).label(1) == "client 1"
    assert Fleet(**FLEET, name=["ward", "lab"]).label(1) == "lab"


@pytest.mark.parametrize(("pl_constant", "contraction"), [(0, 1.0), (50, 0.5), (1e9, 0.0)])
def test_contraction_stays_a_contraction(pl_constant: float, contraction: float) -> None:
    assert LossGeometry(**{**GEOMETRY, "pl_constant": pl_constant}).contraction == contraction


def test_limits_without_rounds_or_ends() -> None:
    open_ended = Limits(deadline=math.inf, budget=math.inf, cost_per_sample=0, cost_per_round=0)
    assert open_ended.rounds is None
    assert open_ended.max_local_steps == 100
