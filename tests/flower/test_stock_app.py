"""The app that stock SuperNodes run."""

from pathlib import Path

from dynamite_fl.flower.messenger import Messenger
from dynamite_fl.flower.roster import Roster
from dynamite_fl.flower.stock_app import app
from dynamite_fl.flower.stock_bundle import stock_bundle
from dynamite_fl.job.read import to_toml
from dynamite_fl.job.training import load_training_job
from tests.flower.local_grid import LocalGrid


def test_the_configuration_of_a_node_describes_its_client(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(to_toml(load_training_job().tables))
    config = {"name": "ward", "job": str(job), "part": 3, "state": str(tmp_path)}
    roster = Roster(Messenger(LocalGrid({1: app}, {1: config})), capacity=10)
    roster.update()
    assert roster.connected_names == ["ward"]


def test_the_bundle_is_the_same_every_time() -> None:
    assert stock_bundle().hash_str == stock_bundle().hash_str
