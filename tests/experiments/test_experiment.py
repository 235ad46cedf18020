"""The files of the experiments: all names, keys and jobs in them can be used."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dynamite_fl.control.baselines.dynamic_tau import DynamicTau
from dynamite_fl.errors import InvalidInput
from dynamite_fl.experiments import JOBS, NAMES, title_of
from dynamite_fl.experiments.experiment import (
    SCALES,
    Experiment,
    experiment_from,
    load_experiment,
    merged,
)
from dynamite_fl.experiments.measures import COLUMNS, MEASURES
from dynamite_fl.job.build import build_controller
from dynamite_fl.job.build_data import build_stream, number_of_devices
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.partitions import partition_from_table

SMALL = """
title = "Small"
shows = "fig:small"
[seeds]
smoke = 1
laptop = 2
paper = 3
[notes]
[at]
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
title = "FedAvg"
job.limits = { budget = 7 }
[[charts]]
kind = "lines"
y = "accuracy"
[[claims]]
says = "It learns"
kind = "above"
of = "fedavg"
threshold = 0.1
"""


def small(text: str) -> Experiment:
    return experiment_from("small", tomllib.loads(text))


def test_every_file_is_an_experiment_and_has_a_name() -> None:
    assert {file.stem for file in JOBS.iterdir()} == set(NAMES)
    assert [load_experiment(name).title for name in NAMES] == [title_of(name) for name in NAMES]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there is no experiment 'ablatio': did you mean"):
        load_experiment("ablatio")


KEYS = {
    *("title", "shows", "like", "select", "job", "at", "seeds", "panels", "contenders"),
    *("notes", "charts", "claims", "theorem"),
}
DRAWN = {"lines": set(COLUMNS), "bars": set(MEASURES), "theorem": {"local_steps", "batch_mean"}}
KINDS = {
    *("ahead", "alike", "above", "below", "equals", "greater"),
    *("theorem-falls", "theorem-near"),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_known(name: str) -> None:
    tables = tomllib.loads((JOBS / f"{name}.toml").read_text())
    assert set(tables) <= KEYS
    if "like" in tables:  # these are taken over from the other file as they are
        assert "like" not in tomllib.loads((JOBS / f"{tables['like']}.toml").read_text())
        assert not {"job", "at", "seeds", "theorem"} & set(tables)
    experiment = load_experiment(name)
    variants = [*experiment.panels.items(), *experiment.contenders.items()]
    for key, variant in variants:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key)
        assert set(variant.scales) <= set(SCALES)
    by_scale = [experiment.at, experiment.notes, experiment.theorem]
    by_scale += [claim.because for claim in experiment.claims] + [v.at for _, v in variants]
    assert all(set(table) <= set(SCALES) for table in by_scale)
    assert set(SCALES) - {"reduced"} <= set(experiment.seeds) <= set(SCALES)
    assert all(count >= 1 for count in experiment.seeds.values())


@pytest.mark.parametrize("name", NAMES)
def test_claims_and_charts_name_what_there_is(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.charts
    assert experiment.claims
    for chart in experiment.charts:
        assert chart.y in DRAWN[chart.kind]
        assert chart.x in ("round", "seconds", "cost")
        assert set(chart.panels) <= set(experiment.panels)
    for claim in experiment.claims:
        assert claim.kind in KINDS
        assert claim.measure in MEASURES
        contenders = {claim.of, claim.minus, claim.also_of, *claim.over} - {""}
        assert contenders <= set(experiment.contenders)
        assert {*claim.panels, *claim.than} <= set(experiment.panels)
        assert bool(claim.over) == (claim.kind in ("ahead", "alike"))
        assert bool(claim.than) == (claim.kind == "greater")
        assert bool(claim.rounds) == bool(claim.local_steps) == (claim.kind == "theorem-near")
        assert bool(claim.of) != claim.kind.startswith("theorem")


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
    assert bool(experiment.panels_at(scale)) == (scale in experiment.seeds)
    for panel in experiment.panels_at(scale):
        for contender in experiment.contenders:
            job = experiment.job_of(scale, panel, contender, 0)
            assert number_of_devices(job) > 1
            partition_from_table(job.tables["partition"])
            if job.controller_name != "cooptfl":
                build_controller(job, lambda _: pytest.fail("no pilot run is needed"))
            stream = build_stream(job)
            if stream is not None:
                labels = np.arange(20) % 2
                stream.build(lambda _: np.arange(20), labels, job.limits.rounds, seed=0)


def test_the_paper_s_numbers_are_at_its_scale() -> None:
    online = load_experiment("online-accuracy")
    tables_of = {
        panel: online.job_of("paper", panel, "dynamite", 0).tables
        for panel in online.panels_at("paper")
    }
    limits = {
        name: (tables["limits"]["budget"], tables["limits"]["deadline"])
        for name, tables in tables_of.items()
    }
    assert limits == {
        "cost": (10000, 5000),
        "time": (20000, 2000),
        "cost-100": (40000, 5000),
        "time-100": (80000, 1000),
    }
    assert tables_of["time-100"]["limits"]["cost_per_round"] == 10  # N/10
    assert tables_of["cost"]["training"]["learning_rate"] == 0.005
    table = load_experiment("stream-table")
    burst = table.job_of("paper", "cifar-burst-time", "fedavg", 0).tables
    assert (burst["limits"]["deadline"], burst["limits"]["budget"]) == (500, 80000)
    assert burst["task"] == {"model": "cnn", "dataset": "cifar10"}
    assert table.panels["cifar-burst-time"].published["dynamite"] == 0.631


def test_the_reduced_scale_has_the_paper_s_model_and_proportions() -> None:
    """Static: a sixth of rounds and limits. Streams: a tenth of the rounds, a fifth of clients."""
    online = load_experiment("online-accuracy")
    for panel in ("cost", "time"):
        full, sixth = (online.job_of(scale, panel, "dynamite", 0) for scale in ("paper", "reduced"))
        for key in ("devices", "task", "partition", "controller"):
            assert full.tables[key] == sixth.tables[key]
        for key in ("rounds", "deadline", "budget"):
            of_paper, of_sixth = full.tables["limits"][key], sixth.tables["limits"][key]
            assert of_sixth == pytest.approx(of_paper / 6, rel=1e-3), key
    table = load_experiment("stream-table")
    assert len(table.panels_at("reduced")) == 8
    for panel in table.panels_at("reduced"):
        full, tenth = (table.job_of(scale, panel, "fedavg", 0) for scale in ("paper", "reduced"))
        assert tenth.tables["task"]["model"] == full.tables["task"]["model"] == "cnn"
        assert tenth.tables["limits"]["rounds"] == full.tables["limits"]["rounds"] / 10
        assert tenth.tables["stream"]["scale"] == 0.1
        assert tenth.tables["stream"]["preset"] == full.tables["stream"]["preset"]
        if panel.endswith("cost"):
            assert tenth.tables["limits"]["budget"] == full.tables["limits"]["budget"] / 50


def test_an_experiment_without_a_scale_says_which_it_has() -> None:
    experiment = load_experiment("optimal-tau")
    assert experiment.panels_at("reduced") == []
    assert experiment.run_count("reduced") == 0
    with pytest.raises(InvalidInput, match="reduced: choose one of smoke, laptop, paper"):
        experiment.seeds_at("reduced")


def every_job(scale: str) -> Iterator[TrainingJob]:
    for name in NAMES:
        experiment = load_experiment(name)
        for panel in experiment.panels_at(scale):
            for contender in experiment.contenders:
                yield experiment.job_of(scale, panel, contender, 0)


@pytest.mark.parametrize("scale", SCALES)
def test_phi_of_dynamic_tau_goes_with_the_model_and_rounds_always_count(scale: str) -> None:
    """Wang et al. use 0.025 for the SVM and 5e-5 for the CNN."""
    phi = {"cnn": 5e-5, "perceptron": 5e-5, "softmax": 0.025, "svm": 0.025}
    found = [job for job in every_job(scale) if job.controller_name == "dynamic-tau"]
    assert found
    for job in found:
        controller = build_controller(job, lambda _: pytest.fail("no pilot run is needed"))
        assert isinstance(controller, DynamicTau)
        assert controller.phi == phi[job.tables["task"]["model"]]
        assert controller.count_rounds


@pytest.mark.parametrize("scale", ["laptop", "reduced", "paper"])
def test_the_rule_is_run_as_published(scale: str) -> None:
    """Its measurements are free, and M_i is measured anew as soon as a new batch is harder."""
    measuring = {"dynamite", "dynamite-static-tau", "dynamite-uniform", "dynamic-tau"}
    for job in every_job(scale):
        if job.controller_name in measuring:
            assert job.settings.free_probes
            assert job.settings.loss_rise == 0


def test_batch_sizes_are_assigned_at_the_paper_s_two_local_steps() -> None:
    for scale in ("laptop", "paper"):
        experiment = load_experiment("batch-sizes")
        for panel in experiment.panels_at(scale):
            for contender in experiment.contenders:
                job = experiment.job_of(scale, panel, contender, 0)
                clients, limits = number_of_devices(job), job.limits
                a_round = limits.cost_per_round + limits.cost_per_sample * 2 * 60 * clients
                assert limits.rounds is not None
                assert limits.budget == pytest.approx(limits.rounds * a_round)
                if contender == "cooptfl":
                    assert job.tables["controller"]["local_steps"] == 2
                else:
                    made: Any = build_controller(job, lambda _: pytest.fail("no pilot"))
                    assert (made.local_steps, made.batch_size) == (2, 60)


def test_layers_replace_one_another_in_order() -> None:
    experiment = small(SMALL)
    tables = experiment.job_of("smoke", "one", "fedavg", 5).tables
    assert tables["limits"]["rounds"] == 2
    assert tables["limits"]["budget"] == 7
    assert tables["controller"] == {"name": "fedavg"}
    assert tables["training"]["learning_rate"] == 0.1
    assert tables["training"]["seed"] == 5
    assert experiment.job_of("laptop", "one", "fedavg", 0).tables["limits"]["rounds"] == 4
    assert experiment.job["limits"]["rounds"] == 4  # nothing was changed


def test_a_table_of_another_kind_replaces_all() -> None:
    before = {"partition": {"kind": "wang", "case": 2}, "devices": "vm20"}
    after = {"partition": {"kind": "dirichlet", "alpha": 1.0}, "devices": {"latency": 1}}
    assert merged([before, after]) == after
    assert merged([before, {"devices": "edge100"}])["devices"] == "edge100"


def test_like_shares_runs_and_takes_over_the_rest() -> None:
    base, like = load_experiment("stream-table"), load_experiment("sampling")
    assert like.runs_from == base.name
    panel = "emnist-burst-cost"
    ours, theirs = (each.job_of("laptop", panel, "dynamite", 1) for each in (base, like))
    assert ours.tables == theirs.tables
    fifo = like.job_of("laptop", panel, "dynamite-fifo", 1).tables
    assert fifo["stream"]["buffer"] == "fifo"
    assert fifo["controller"] == {"name": "dynamite"}
