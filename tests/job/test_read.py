"""From TOML to checked tables, and back."""

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.errors import InvalidInput, JobError
from dynamite_fl.job.read import check_tables, differences, read_tables, table_record, to_toml

PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False).filter(lambda value: value != -math.inf),
    st.text(st.characters(exclude_categories=["Cs"])),
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text('ab -é"', min_size=1), inner)
)
NAMES = st.text("abc_", min_size=1)


@given(st.dictionaries(NAMES, PLAIN | st.dictionaries(NAMES, VALUES)))
def test_what_is_written_is_read_again(tables: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(tables)) == tables


def test_keys_without_a_value_are_not_written() -> None:
    assert to_toml({"limits": {"rounds": None, "budget": 3}}) == "[limits]\nbudget = 3\n"


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("a.b=3", 3),
        ("a.b = 0.5", 0.5),
        ("a.b=inf", math.inf),
        ("a.b=word", "word"),
        ("a.b=two words", "two words"),
        ('a.b="3"', "3"),
        ("a.b=none", None),
        ("a.b=[1, 2]", [1, 2]),
        ("a.b={c = 1}", {"c": 1}),
        ("a.b=x=y", "x=y"),
    ],
)
def test_values_of_overrides(tmp_path: Path, override: str, value: object) -> None:
    (tmp_path / "job.toml").write_text("[a]\nb = 1\n")
    assert read_tables(tmp_path / "job.toml", "", [override]) == {"a": {"b": value}}


def test_a_csv_file_in_an_override_is_relative_to_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tables = read_tables(None, "training.toml", ["devices=mine.csv", "task.model=mine.csv"])
    assert tables["devices"] == str(tmp_path / "mine.csv")
    assert tables["task"]["model"] == "mine.csv"


def test_tables_that_are_unknown_or_missing() -> None:
    check_tables({"task": {}, "limits": {}}, ["task"], ["limits"])
    with pytest.raises(JobError, match="the job has no key 'limts': did you mean 'limits'"):
        check_tables({"limts": {}}, ["limits"])
    with pytest.raises(JobError, match=r"the job lacks \[limits\]"):
        check_tables({"task": {}}, ["task", "limits"])
    with pytest.raises(JobError, match=r"has devices inside \[task\]: write it above all tables"):
        check_tables({"task": {"devices": "vm20"}}, ["task", "devices"])


@dataclass(frozen=True)
class Range:
    low: float
    high: float = 9.0

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInput(f"Range.low is {self.low}, above Range.high")


def test_a_record_from_a_table_speaks_of_the_tables_keys() -> None:
    assert table_record(Range, "range", {"low": 1, "high": None}) == Range(1)
    with pytest.raises(JobError, match=r"^range\.low is 10, above range\.high$"):
        table_record(Range, "range", {"low": 10})
    with pytest.raises(JobError, match="range lacks the key 'low'"):
        table_record(Range, "range", {})
    with pytest.raises(JobError, match="range must be a table of keys"):
        table_record(Range, "range", 3)


def test_differences_name_keys_and_are_cut_short() -> None:
    there = {"devices": {"speed": list(range(99))}, "limits": {"rounds": 3, "budget": 5}}
    here = {"devices": "vm20", "limits": {"rounds": 4, "budget": 5}, "stream": {"size": 1}}
    devices, rounds, stream = differences(there, here)
    assert devices.startswith("devices is { speed = [0, 1, ")
    assert len(devices) < 120
    assert rounds == "limits.rounds is 3 there and 4 here"
    assert stream == "stream is not set there and { size = 1 } here"
    assert differences(there, there) == []
