"""The settings of differential privacy check themselves."""

from typing import Any

import pytest

from dynamite_fl import InvalidInput, Privacy


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clip_norm": 0}, "clip_norm"),
        ({"clip_norm": float("nan")}, "clip_norm"),
        ({"clip_norm": "1"}, "clip_norm"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"noise_multiplier": float("inf")}, "noise_multiplier"),
        ({"noise_at": "server "}, "did you mean 'server'"),
        ({"noise_at": 3}, "noise_at"),
        ({"clip_quantile": 0.0}, "clip_quantile"),
        ({"clip_quantile": 1.0}, "clip_quantile"),
        ({"clip_quantile": 0.5, "noise_at": "node"}, "clip_quantile"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Privacy(**{"clip_norm": 1.0, **wrong})
