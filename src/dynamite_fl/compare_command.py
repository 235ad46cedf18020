"""What ``dynamite compare`` does."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from dynamite_fl.compare import (
    Contender,
    Run,
    contender,
    contenders_of,
    result_of,
    runs_of,
    with_buffers,
)
from dynamite_fl.compare_runs import play_all
from dynamite_fl.compare_view import CompareView, show_comparison, show_failures
from dynamite_fl.config import JobError
from dynamite_fl.control.fedavg import FedAvg
from dynamite_fl.engine.cohort import draw_cohort
from dynamite_fl.engine.loop import Training
from dynamite_fl.hindsight import (
    FINALISTS,
    Hindsight,
    Pair,
    around,
    grid,
    look_back,
    outline,
    ranked,
)
from dynamite_fl.report.summary import (
    FEDAVG,
    Result,
    Row,
    Target,
    json_ready,
    row_to_json,
    summed_up,
    target_of,
)
from dynamite_fl.report.tracking import prepare
from dynamite_fl.run_command import INTERRUPTED
from dynamite_fl.run_config import TrainingJob, make_training, trackers_of

_SOME_FAILED = 1


@dataclass(frozen=True)
class Request:
    """What to compare.

    Attributes:
        job: What all have in common.
        controllers: By name; None for all that need no settings.
        buffers: Each controller is run with each of these; None for the job's own.
        seeds: How many, from the job's on.
        target: The accuracy to reach; None for FedAvg's.
        hindsight: Whether fixed pairs are run too.
        folder: Where run folders are.
        data_dir: Where datasets are.
        jobs: How many processes.
    """

    job: TrainingJob
    controllers: Sequence[str] | None
    buffers: Sequence[str] | None
    seeds: int
    target: float | None
    hindsight: bool
    folder: Path
    data_dir: Path | None
    jobs: int

    @property
    def all_seeds(self) -> list[int]:
        """The seeds themselves."""
        first = int(self.job.tables["training"].get("seed") or 0)
        return list(range(first, first + self.seeds))


@dataclass
class _Played:
    """What came of all runs so far."""

    results: list[Result] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def of(self, contenders: Sequence[Contender]) -> list[Result]:
        """The results of these, in their order."""
        names = [each.name for each in contenders]
        return [each for name in names for each in self.results if each.contender == name]


def compare(request: Request, as_json: bool) -> None:
    """Run all, then show them side by side; ends the program with 1 if a run failed."""
    torch.set_num_threads(1)
    contenders = contenders_of(request.job, request.controllers)
    if request.hindsight and FEDAVG not in (each.name for each in contenders):
        contenders.append(contender(request.job, FEDAVG))  # where the way begins
    if request.buffers is not None:
        if request.hindsight:
            raise JobError("--hindsight is for one buffer: set stream.buffer instead of --buffers")
        contenders = with_buffers(request.job, contenders, request.buffers)
    runs = runs_of(request.job, contenders, request.all_seeds, request.folder)
    training = make_training(runs[0].job, request.data_dir)  # what is wrong shows before all
    prepare(trackers_of(request.job), request.folder)
    pairs, outlined = _pairs(training, contenders) if request.hindsight else ([], [])
    tries = [pair.contender for pair in outlined]
    runs += runs_of(request.job, tries, request.all_seeds[:1], request.folder)
    del training
    console = Console(stderr=as_json, highlight=False)
    with CompareView(console) as view:
        try:
            played = _play(request, runs, view)
            near = around(_best(played, tries), pairs)
            closer = [pair.contender for pair in near if pair not in outlined]
            more = runs_of(request.job, closer, request.all_seeds[:1], request.folder)
            _play(request, more, view, played)
            tries += closer
            finalists = [pair.contender for pair in _best(played, tries)[:FINALISTS]]
            later = runs_of(request.job, finalists, request.all_seeds[1:], request.folder)
            _play(request, later, view, played)
        except KeyboardInterrupt:
            console.print(
                f"Interrupted. What is done is in {request.folder}. To go on, repeat the command "
                f"with --name {request.folder.name}",
                markup=False,
                soft_wrap=True,
            )
            raise SystemExit(INTERRUPTED) from None
    _show(request, contenders, tries, finalists, played, as_json)


def _pairs(training: Training, contenders: Sequence[Contender]) -> tuple[list[Pair], list[Pair]]:
    """The grid of fixed pairs, without FedAvg's own, which is run anyway, and its outline."""
    schedule = training.schedule
    cohort = draw_cohort(training.fleet.samples, schedule.selection, schedule.seed, 1)
    table = next(each.table for each in contenders if each.name == FEDAVG)
    known = Pair(
        table.get("local_steps", FedAvg.local_steps), table.get("batch_size", FedAvg.batch_size)
    )
    fleet = training.fleet.subset(cohort)
    pairs = grid(fleet, training.limits, known)
    return pairs, outline(fleet, training.limits, pairs)


def _play(
    request: Request, runs: Sequence[Run], view: CompareView, played: _Played | None = None
) -> _Played:
    """Play what is not finished, and add all of it to what was played before."""
    played = played or _Played()
    waiting = [run for run in runs if not run.is_finished]
    view.more(len(runs), finished=len(runs) - len(waiting))
    played.failures |= play_all(waiting, request.data_dir, request.jobs, view)
    for run in runs:
        if run.name not in played.failures:
            result = result_of(run)
            if isinstance(result, str):
                played.failures[run.name] = result
            else:
                played.results.append(result)
    return played


def _best(played: _Played, tries: Sequence[Contender]) -> list[Pair]:
    return list(ranked(played.of(tries)))


def _show(
    request: Request,
    contenders: Sequence[Contender],
    tries: Sequence[Contender],
    finalists: Sequence[Contender],
    played: _Played,
    as_json: bool,
) -> None:
    results = played.of(contenders)
    console = Console(highlight=False)
    if results:
        target = target_of(results, request.target)
        rows = summed_up(results, target.accuracy)
        hindsight = None
        if request.hindsight:
            hindsight = _hindsight(request, tries, finalists, played, rows, target)
        if as_json:
            found = _to_json(request, rows, target, hindsight, played.failures)
            print(json.dumps(json_ready(found), allow_nan=False))  # noqa: T201
        else:
            show_comparison(console, rows, target, request.seeds, hindsight)
    elif as_json:
        print(json.dumps({"error": "no run finished", "failed": played.failures}))  # noqa: T201
    show_failures(Console(stderr=True, highlight=False), played.failures)
    if played.failures:
        raise SystemExit(_SOME_FAILED)


def _hindsight(
    request: Request,
    tries: Sequence[Contender],
    finalists: Sequence[Contender],
    played: _Played,
    rows: Sequence[Row],
    target: Target,
) -> Hindsight | None:
    first = [each for each in played.of(tries) if each.seed == request.all_seeds[0]]
    fedavg = next((row for row in rows if row.contender == FEDAVG), None)
    candidates = summed_up(played.of(finalists), target.accuracy)
    if fedavg is not None:
        candidates.append(fedavg)
    return look_back(ranked(first), candidates, rows, fedavg)


def _to_json(
    request: Request,
    rows: Sequence[Row],
    target: Target,
    hindsight: Hindsight | None,
    failures: dict[str, str],
) -> dict[str, Any]:
    found = {
        "job": request.job.tables,
        "seeds": request.all_seeds,
        "target": target.accuracy,
        "target_is_mean_of": target.mean_of,
        "best": rows[0].contender,
        "controllers": [row_to_json(row, target.accuracy) for row in rows],
        "failed": failures,
    }
    if hindsight is not None:
        found["hindsight"] = {
            "best": row_to_json(hindsight.best, target.accuracy),
            "gap": hindsight.gap,
            "gap_deviation": hindsight.deviation,
            "covered": hindsight.covered,
            "first_seed": [
                {"local_steps": pair.local_steps, "batch_size": pair.batch_size, "accuracy": each}
                for pair, each in hindsight.tried.items()
            ],
        }
    return found
