"""Experiments' files: all that come with the package, and broken ones."""

import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from dynamite_fl.config import table_record
from dynamite_fl.control.controllers import make_controller
from dynamite_fl.engine.fleets import FLEETS
from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.experiment import SCALES, merged
from dynamite_fl.experiments.read import load_experiment, read_experiment
from dynamite_fl.records import Limits
from dynamite_fl.run_config import Settings
from dynamite_fl.stream_config import make_streams
from dynamite_fl.tables import JobError

SMALL = """
title = "Small"
shows = "fig:small"
[seeds]
smoke = 1
laptop = 2
paper = 3
[job]
devices = "testbed5"
task = { model = "softmax", dataset = "digits" }
partition = { kind = "dirichlet", alpha = 0.3 }
limits = { rounds = 4, deadline = 9, budget = 9, cost_per_sample = 0.001, cost_per_round = 1 }
training = { learning_rate = 0.1 }
[panels.one]
title = "One"
at.smoke.limits = { rounds = 2 }
[contenders.fedavg]
job.limits = { budget = 7 }
[[pictures]]
kind = "lines"
y = "accuracy"
[[claims]]
says = "It learns"
form = "level"
of = "fedavg"
above = 0.1
"""


def test_every_file_is_an_experiment_and_has_a_name() -> None:
    files = resources.files("dynamite_fl.experiments") / "jobs"
    assert {Path(file.name).stem for file in files.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_remarks_have_no_measured_figures(name: str) -> None:
    """They are shown beside anybody's runs; what jobs set may be in them."""
    measured = re.compile(r"\d (points|%|s\b)|\d to \d|(within|under) \d")
    for claim in load_experiment(name).claims:
        for remark in claim.because.values():
            assert not measured.search(remark), remark


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_jobs_can_be_used(name: str, scale: str) -> None:
    """All that can be checked without the data: limits, settings, streams, controllers."""
    experiment = load_experiment(name)
    assert experiment.panels_at(scale)
    for panel in experiment.panels_at(scale):
        for contender in experiment.contenders:
            tables = experiment.job_of(scale, panel, contender, 0).tables
            limits = table_record(Limits, "limits", tables["limits"])
            settings = table_record(Settings, "training", tables["training"])
            if isinstance(tables["devices"], str):
                assert tables["devices"] in FLEETS
            own = {k: v for k, v in tables["controller"].items() if k != "name"}
            if tables["controller"]["name"] != "cooptfl":
                make_controller(
                    tables["controller"]["name"], learning_rate=settings.learning_rate, **own
                )
            if "stream" in tables:
                make_streams(
                    tables["stream"],
                    pool=lambda _: np.arange(20),
                    labels=np.arange(20) % 2,
                    dataset=tables["task"]["dataset"],
                    rounds=limits.rounds,
                    seed=0,
                )


def test_the_paper_s_numbers_are_at_its_scale() -> None:
    panels = load_experiment("online-accuracy")
    found = {
        panel: panels.job_of("paper", panel, "dynamite", 0).tables
        for panel in panels.panels_at("paper")
    }
    limits = {
        name: (tables["limits"]["budget"], tables["limits"]["deadline"])
        for name, tables in found.items()
    }
    assert limits == {
        "cost": (10000, 5000),
        "time": (20000, 2000),
        "cost-100": (40000, 5000),
        "time-100": (80000, 1000),
    }
    assert found["time-100"]["limits"]["cost_per_round"] == 10  # N/10
    assert found["cost"]["training"]["learning_rate"] == 0.005
    table = load_experiment("stream-table")
    burst = table.job_of("paper", "cifar-burst-time", "fedavg", 0).tables
    assert (burst["limits"]["deadline"], burst["limits"]["budget"]) == (500, 80000)
    assert burst["task"] == {"model": "cnn", "dataset": "cifar10"}
    assert table.panels["cifar-burst-time"].published["dynamite"] == 0.631


def test_layers_replace_one_another_in_order() -> None:
    experiment = read_experiment("small", SMALL)
    tables = experiment.job_of("smoke", "one", "fedavg", 5).tables
    assert tables["limits"]["rounds"] == 2
    assert tables["limits"]["budget"] == 7
    assert tables["controller"] == {"name": "fedavg"}
    assert tables["training"] == {"learning_rate": 0.1, "seed": 5}
    assert experiment.job_of("laptop", "one", "fedavg", 0).tables["limits"]["rounds"] == 4
    assert experiment.job["limits"]["rounds"] == 4  # nothing was changed


def test_a_table_of_another_kind_replaces_all() -> None:
    before = {"partition": {"kind": "wang", "case": 2}, "devices": "vm20"}
    after = {"partition": {"kind": "dirichlet", "alpha": 1.0}, "devices": {"latency": 1}}
    assert merged([before, after]) == after
    assert merged([before, {"devices": "edge100"}])["devices"] == "edge100"


def test_like_shares_runs_and_takes_over_the_rest() -> None:
    base, like = load_experiment("stream-table"), load_experiment("sampling")
    assert like.pool == base.name
    panel = "emnist-burst-cost"
    ours, theirs = (each.job_of("laptop", panel, "dynamite", 1) for each in (base, like))
    assert ours.tables == theirs.tables
    fifo = like.job_of("laptop", panel, "dynamite-fifo", 1).tables
    assert fifo["stream"]["buffer"] == "fifo"
    assert fifo["controller"] == {"name": "dynamite"}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('title = "Small"', "", "small.toml: the file lacks title"),
        ('shows = "fig:small"', 'show = "x"', "has no key show; did you mean shows"),
        ("smoke = 1", "smoke = 0", r"seeds.smoke is 0: it must be a whole number, 1 or more"),
        ("smoke = 1\n", "", "seeds lacks smoke"),
        ("[panels.one]", "[panels.One]", "panels.One: names are of small letters"),
        ("at.smoke.limits", "at.smok.limits", "panels.one.at has no key smok; did you mean smoke"),
        ("at.smoke.limits", "at.smoke.limit", "panels.one.at.smoke has no key limit; did you mean"),
        ('title = "One"', 'scales = ["small"]', "panels.one.scales has 'small'"),
        ('title = "One"', "titel = 1", "panels.one has no key titel; did you mean title"),
        ('of = "fedavg"', 'of = "fedavgg"', r"claims\[0\].of has 'fedavgg': did you mean fedavg"),
        ('of = "fedavg"', 'of = "fedavg"\npanels = ["two"]', r"claims\[0\].panels has 'two'"),
        ('of = "fedavg"', 'of = "fedavg"\nmeasure = "acc"', r"claims\[0\].measure has 'acc'"),
        (
            'y = "accuracy"',
            'y = "acuracy"',
            r"pictures\[0\].y has 'acuracy': did you mean accuracy",
        ),
        ('kind = "lines"', 'kind = "pie"', r"pictures\[0\].kind has 'pie'"),
        ("[seeds]", '[select]\npanels = ["two"]\n[seeds]', "select.panels has 'two'"),
        ("[seeds]", "[seeds", "small.toml is not valid TOML"),
        ("job.limits = { budget = 7 }", "job = 3", "contenders.fedavg.job must be a table"),
        ('title = "Small"', 'title = "Small"\nlike = "smal"', "there is no experiment smal"),
    ],
)
def test_broken_files_say_what_to_change(before: str, after: str, message: str) -> None:
    assert before in SMALL
    with pytest.raises(JobError, match=message):
        read_experiment("small", SMALL.replace(before, after, 1))


def test_a_job_that_lacks_a_table() -> None:
    text = SMALL.replace("training = { learning_rate = 0.1 }\n", "")
    experiment = read_experiment("small", text)
    seedless = experiment.job_of("smoke", "one", "fedavg", 0)
    with pytest.raises(JobError, match="training lacks learning_rate"):
        table_record(Settings, "training", seedless.tables["training"])
    text = SMALL.replace('devices = "testbed5"\n', "")
    with pytest.raises(JobError, match=r"small: the job of one at smoke lacks \[devices\]"):
        read_experiment("small", text).job_of("smoke", "one", "fedavg", 0)
