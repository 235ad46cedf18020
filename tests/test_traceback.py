"""Tracebacks of a user's own code."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynamite_fl._load import load_object
from dynamite_fl._traceback import user_traceback
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.errors import UserCodeError
from tests.trainings import digits

USERS = """
import json

def parse():
    return json.loads("{")

def divide(*_, **__):
    return 1 / 0
"""


def error_of(function: Callable[..., object], *arguments: object) -> BaseException:
    """Return what a function raises, without the frame of this file."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  of any kind
        function(*arguments)
    assert caught.value.__traceback__ is not None
    return caught.value.with_traceback(caught.value.__traceback__.tb_next)


def test_frames_begin_with_the_users_own(tmp_path: Path) -> None:
    """Frames of libraries that the user's code has called stay."""
    (tmp_path / "users_a.py").write_text(USERS)
    text = user_traceback(error_of(load_object("users_a:parse", "function", [tmp_path])))
    assert text is not None
    lines = text.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{tmp_path / "users_a.py"}", line 5, in parse'
    assert "json/decoder.py" in text
    assert lines[-1].startswith("json.decoder.JSONDecodeError: ")


def test_frames_of_this_package_are_left_out(tmp_path: Path) -> None:
    """The package calls the user's loss here."""
    (tmp_path / "users_b.py").write_text(USERS)
    task = replace(digits(), loss=load_object("users_b:divide", "function", [tmp_path]))
    model = FlatModel(task, seed=0)
    batch = task.train.batch(np.arange(2))
    error = error_of(model.gradient, model.first_weights, batch)
    assert isinstance(error, UserCodeError)
    assert error.__cause__ is not None
    text = user_traceback(error.__cause__)
    assert text is not None
    assert "ZeroDivisionError" in text
    assert "users_b.py" in text
    assert "dynamite_fl" not in text


def test_an_error_without_frames_of_the_user_is_not_theirs() -> None:
    assert user_traceback(error_of(json.loads, "{")) is None
    assert user_traceback(ValueError("never raised")) is None
