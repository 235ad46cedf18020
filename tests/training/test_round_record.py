"""A round as a line of JSON, and what is refused when a line is read."""

import json
import math
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.training.round_record import RoundRecord, parse_line
from tests.training.records import record

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def line(**values: Any) -> str:
    required = {"round": 1, "seconds": 2.0, "cost": 3.0, "local_steps": 4, "batch_mean": 5.0}
    return json.dumps({**required, **values})


def parsed(**values: Any) -> RoundRecord:
    found = parse_line(line(**values))
    assert found is not None
    return found


def test_a_line_has_the_fields_in_their_order() -> None:
    always = list(json.loads(record(1).to_line()))
    assert always == [field.name for field in fields(RoundRecord)][:19]
    assert always[16:] == ["metrics", "loss", "estimates"]
    full = record(
        1,
        learning_rate=0.1,
        epsilon=1.5,
        class_accuracy={"0": 0.5},
        client_metrics=(0.5, None),
        stream_loss=0.1,
        clients=(3,),
        batch_sizes=(4,),
        step_seconds=(0.1,),
        comm_seconds=(None,),
        arrived=(7,),
    )
    assert list(json.loads(full.to_line())) == [field.name for field in fields(RoundRecord)]
    assert parse_line(full.to_line()) == full


@given(
    seconds=NUMBERS,
    metrics=st.none() | st.dictionaries(st.text(), st.none() | NUMBERS),
    client_metrics=st.none() | st.lists(st.none() | NUMBERS).map(tuple),
    absent=st.lists(st.integers(0, 99)).map(tuple),
    estimates=st.dictionaries(st.text(), st.none() | NUMBERS),
    steps=st.lists(st.none() | NUMBERS).map(tuple),
)
def test_what_is_written_is_read_again(
    seconds: float,
    metrics: dict[str, float | None] | None,
    client_metrics: tuple[float | None, ...] | None,
    absent: tuple[int, ...],
    estimates: dict[str, float | None],
    steps: tuple[float | None, ...],
) -> None:
    written = record(
        1,
        seconds=seconds,
        metrics=metrics,
        client_metrics=client_metrics,
        absent=absent,
        estimates=estimates,
        clients=tuple(range(len(steps))),
        step_seconds=steps,
    )
    read = parse_line(written.to_line())
    assert read == written
    assert read.to_line() == written.to_line()
    assert list(read.metrics or ()) == list(metrics or ())  # the first metric leads


def test_numbers_that_json_lacks_become_null() -> None:
    text = record(1, bound=math.inf, estimates={"drift": math.nan}).to_line()
    assert json.loads(text)["bound"] is None
    assert json.loads(text)["estimates"] == {"drift": None}


@pytest.mark.parametrize(
    "text",
    [
        "words",
        "[1]",
        "null",
        '{"round": 3}',
        line(seconds="long"),
        line(seconds=None),
        line(cost=True),
        line(cost=10**400),
        line(local_steps=1.5),
        "[" * 100_000,
        '{"round": ' + "9" * 5000 + "}",
    ],
)
def test_damaged_lines_are_refused(text: str) -> None:
    assert parse_line(text) is None


def test_other_fields_of_the_wrong_type_are_left_out() -> None:
    odd = parsed(
        metrics={"accuracy": "high"},
        client_metrics=[0.5, "low"],
        clients=[0, 1],
        batch_sizes=[4],
        step_seconds=[0.1, None],
        absent="nobody",
        estimates=[1],
        probed=1,
        unknown=3,
    )
    assert odd == record(
        1,
        seconds=2.0,
        cost=3.0,
        local_steps=4,
        clients=(0, 1),
        step_seconds=(0.1, None),
    )


def test_columns_of_unknown_clients_are_left_out() -> None:
    odd = parsed(clients=[0, None], batch_sizes=[4, 6], absent=[None])
    assert (odd.clients, odd.batch_sizes, odd.absent) == (None, None, ())


@pytest.mark.parametrize(
    ("old", "metrics"),
    [
        ({"accuracy": 0.5}, {"accuracy": 0.5}),
        ({"accuracy": None}, None),  # a round that was not evaluated
        ({"accuracy": "high"}, None),
        ({"accuracy": 0.5, "metrics": {"rmse": 2.0}}, {"rmse": 2.0}),
    ],
)
def test_lines_of_older_versions_have_an_accuracy(
    old: dict[str, Any], metrics: dict[str, float] | None
) -> None:
    assert parsed(**old).metrics == metrics


def test_fields_and_metrics_by_name() -> None:
    judged = record(1, metrics={"rmse": 2.0, "mae": None}, loss=4.0)
    names = ("rmse", "mae", "loss", "seconds", "nothing")
    assert [judged.value(name) for name in names] == [2.0, None, 4.0, 10.0, None]
    assert judged.is_evaluated
    assert record(1, metrics={}, loss=None).is_evaluated  # its loss is not finite
    assert not record(1).is_evaluated
    assert record(1).value("rmse") is None
