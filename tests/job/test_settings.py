"""The table ``training``: its defaults and its checks."""

from typing import Any

import pytest

from dynamite_fl.errors import InvalidInput
from dynamite_fl.job.settings import Settings


def test_settings_have_defaults() -> None:
    settings = Settings(learning_rate=0.1)
    assert (settings.seed, settings.cohort, settings.workers) == (0, None, 1)
    assert (settings.device, settings.precision) == ("cpu", "float32")
    assert not settings.sends_sketches
    assert Settings(learning_rate=0.1, probe_gradient="sketch").sends_sketches


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"learning_rate": 0}, r"training\.learning_rate is 0: it must be a number above 0"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"warmup": 2}, r"training\.warmup is 2"),
        ({"final_rate": 0}, r"training\.final_rate is 0: it must be a number above 0"),
        ({"seed": -1}, r"training\.seed is -1: it must be a whole number"),
        ({"cohort": 0}, r"training\.cohort is 0"),
        ({"evaluate_every": 0}, r"training\.evaluate_every is 0"),
        ({"probe_every": 1.5}, r"training\.probe_every is 1\.5"),
        ({"workers": True}, r"training\.workers is True"),
        ({"select_by": "datta"}, "did you mean 'data'"),
        ({"probe_gradient": "half"}, r"there is no training\.probe_gradient 'half'"),
        ({"device": "cdua"}, r"there is no training\.device 'cdua': did you mean 'cuda'"),
        ({"precision": "float16"}, r"there is no training\.precision 'float16'"),
        ({"free_probes": 1}, r"training\.free_probes is 1: use true or false"),
        ({"track": "mlflow"}, r"training\.track must be a list"),
        ({"track": ["mlfow"]}, "there is no tracker 'mlfow': did you mean 'mlflow'"),
    ],
)
def test_settings_that_cannot_be_used(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Settings(**{"learning_rate": 0.1, **wrong})
