"""Checked numbers, columns, names and keys."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl._validate import (
    LARGEST,
    SMALLEST,
    check_folder_name,
    check_keys,
    check_name,
    check_number,
    check_whole,
    column,
    column_length,
    count_column,
    index_column,
    name_column,
    suggestion,
)
from dynamite_fl.errors import InvalidInput, JobError


@given(st.floats(0, LARGEST) | st.integers(0, 10**30))
def test_numbers_in_range_pass(value: float) -> None:
    check_number("x", value)
    check_number("x", np.float64(value))


@pytest.mark.parametrize(
    ("value", "settings", "message"),
    [
        ("3", {}, "x is '3': it must be a number 0 or more, at most 1e+30"),
        (True, {}, "x is True"),
        (None, {}, "x is None"),
        (math.nan, {}, "x is nan"),
        (-1, {}, "x is -1"),
        (math.inf, {}, "x is inf"),
        (-math.inf, {"finite": False}, "x is -inf: it must be a number 0 or more, at most"),
        (0, {"positive": True}, "x is 0: it must be a number above 0"),
        (SMALLEST / 2, {"positive": True}, "x is 5e-31"),
        (1.5, {"largest": 1}, "x is 1.5: it must be a number 0 or more, at most 1"),
        (10**400, {}, "x is a number of 401 digits"),
    ],
)
def test_other_numbers_are_refused(value: object, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_number("x", value, **settings)
    assert str(refused.value).startswith(message)


def test_infinity_passes_where_it_may() -> None:
    check_number("x", math.inf, finite=False)
    assert column("x", [1, math.inf], 2, finite=False).tolist() == [1, math.inf]


@pytest.mark.parametrize("value", [1.0, True, "1", 0, -3, None, 10**40, 8])
def test_whole_numbers_out_of_range_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="it must be a whole number, from 1 to 7"):
        check_whole("x", value, most=7)
    check_whole("x", np.int64(7), most=7)


def test_a_whole_number_of_many_digits_is_described() -> None:
    with pytest.raises(InvalidInput, match="x is a number of more than 15 digits"):
        check_whole("x", 10**400, most=7)


def test_columns_are_read_only_copies() -> None:
    given_values = np.array([1.0, 2.0])
    made = column("x", given_values, 2)
    given_values[0] = 9
    assert made.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        made[0] = 3
    assert column_length("x", [4, 5, 6]) == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, -1], r"x\[1\] is -1: it must be a number 0 or more"),
        ([1, math.nan], r"x\[1\] is nan"),
        ([1, 2, 3], "x has 3 entries, but 2 are needed: give one number for all"),
        ([[1, 2]], "x has 2 entries, but 2 are needed"),
        (["a", "b"], "x must be a number for each client, or one for all"),
    ],
)
def test_wrong_columns_are_refused(values: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        column("x", values, 2)


def test_lengths_counts_and_indices_that_are_refused() -> None:
    with pytest.raises(InvalidInput, match="x must be a list with one entry for each client"):
        column_length("x", 3)
    with pytest.raises(InvalidInput, match="x is empty"):
        column_length("x", [])
    with pytest.raises(InvalidInput, match=r"x\[1\] is 2\.5: it must be a whole number"):
        count_column("x", [1, 2.5], 2)
    with pytest.raises(InvalidInput, match="more than can be counted"):
        count_column("x", 2.0**53, 2)
    with pytest.raises(InvalidInput, match=r"x\[0\] is 2: it must be a whole number below 2"):
        index_column("x", 2, 3, among=2)
    assert index_column("x", [1, -1, 0], 3, among=2).dtype == np.int64


@pytest.mark.parametrize("names", ["ab", ["a"], ["a", "a"], ["a", 3], ["a", "b\n"], 3])
def test_names_must_differ_and_be_printable(names: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^x (has|must be a list of 2 names)"):
        name_column("x", names, 2)
    assert name_column("x", ["a", "b"], 2) == ("a", "b")


def test_keys_and_names_are_suggested() -> None:
    check_keys("t", {"a": 1}, ["a", "b"], ["a"])
    with pytest.raises(JobError, match="t lacks the key 'b'"):
        check_keys("t", {"a": 1, "b": None}, ["a", "b"], ["b"])
    with pytest.raises(JobError, match="t has no key 'c': use one of a, b"):
        check_keys("t", {"c": 1}, ["a", "b"])
    with pytest.raises(InvalidInput, match="there is no model 3: use one of svm"):
        check_name("model", 3, ["svm"])
    assert suggestion("deadlin", ["budget", "deadline"]) == "did you mean 'deadline'?"


@pytest.mark.parametrize("values", ["1", True, ["1", 2], [1, True], [[1, 2]], {}, None, [None]])
def test_a_column_has_numbers_only(values: Any) -> None:
    """NumPy takes text and truth values for numbers."""
    with pytest.raises(InvalidInput, match="x"):
        column("x", values, 2)


def test_names_of_folders() -> None:
    for name in ("a", "a b", "...", "é", "a.b", "[/x]".replace("/", "")):
        check_folder_name("--name", name)
    for name in ("", ".", "..", "a/b", "a\\b", "a\0b", "\ud800", "x" * 201):
        with pytest.raises(JobError, match=r"--name is .*: it must be the name of a folder"):
            check_folder_name("--name", name)
