"""Which controllers are compared, and with which settings."""

from dynamite_fl.compare.contenders import contenders_of, fixed_contender
from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.job.training import load_training_job


def test_contenders_by_default_and_their_settings() -> None:
    job = load_training_job(overrides=["controller={name='fedavg', local_steps=7}"])
    contenders = {contender.name: contender.table for contender in contenders_of(job, None)}
    assert {"dynamite", "fedavg", "no-straggler", "dbfl", "dynamic-tau"} <= contenders.keys()
    assert "fixed" not in contenders
    assert contenders["fedavg"] == {"name": "fedavg", "local_steps": 7}
    assert contenders["dynamite"] == {"name": "dynamite"}


def test_a_fixed_setting_is_a_contender() -> None:
    contender = fixed_contender(FixedSetting(5, 32))
    assert contender.name == "fixed-5x32"
    assert contender.table == {"name": "fixed", "local_steps": 5, "batch_size": 32}
