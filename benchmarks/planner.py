"""The speed of the planner beside the paper's own algorithm. ``make bench`` runs it."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dynamite_fl import Fleet, Limits, LossGeometry, cooptimize
from dynamite_fl.plan._allocate import allocate
from dynamite_fl.plan._problem import batch_ceilings, cases, total_ceilings
from dynamite_fl.plan.cooptfl import bound_by_steps
from dynamite_fl.plan.cooptfl_as_printed import printed_split

ROUNDS = 1000
STEPS = np.arange(1, 101)
GEOMETRY = LossGeometry(
    learning_rate=0.005,
    quadratic_bound=5,
    smoothness=2,
    pl_constant=0.05,
    divergence=2,
    loss_gap=2.3,
)


HARD = replace(GEOMETRY, divergence=0.0, loss_gap=1e-3)


def fleet_of(n: int) -> Fleet:
    rng = np.random.default_rng(0)
    return Fleet(
        samples=rng.integers(100, 5000, n),
        gradient_variance=rng.lognormal(2, 0.7, n),
        samples_per_second=rng.lognormal(6, 0.5, n).clip(min=100),
        step_overhead=rng.uniform(0, 0.004, n),
        comm_seconds=rng.uniform(0.05, 0.3, n),
    )


def limits_for(n: int) -> Limits:
    """Return limits that bind, the deadline for some clients, and that allow 100 local steps."""
    return Limits(
        rounds=ROUNDS,
        deadline=3.0 * ROUNDS,
        budget=ROUNDS * (0.0005 * 200 * n + 0.1 * n),
        cost_per_sample=0.0005,
        cost_per_round=0.1 * n,
    )


def seconds(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median of the seconds that the work takes, and slowest minus fastest."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)), max(taken) - min(taken)


def plan_times(n: int, repeats: int, geometry: LossGeometry = GEOMETRY) -> tuple[float, float]:
    """Return the seconds to find the best plan, and to size the plans of all 100 local steps."""
    fleet, limits = fleet_of(n), limits_for(n)
    best, best_spread = seconds(lambda: cooptimize(fleet, limits, geometry), repeats)

    def size_all() -> None:
        bounds = bound_by_steps(fleet, limits, geometry, rounds=ROUNDS, local_steps=STEPS)
        assert np.isfinite(bounds).all()  # noqa: S101  else fewer plans would be sized

    every, every_spread = seconds(size_all, repeats)
    print(
        f"{n:>9,} clients   best of 100 local steps {best * 1e3:9.1f} ms (spread "
        f"{best_spread * 1e3:.1f})   all 100 sized {every * 1e3:9.1f} ms (spread "
        f"{every_spread * 1e3:.1f})",
        flush=True,
    )
    return best, every


def printed_ratio(n: int, local_steps: int) -> float:
    """Return the time of one split by the printed algorithm, relative to ours."""
    fleet, limits = fleet_of(n), limits_for(n)
    case = cases(ROUNDS, local_steps, limits.deadline, limits.budget)
    ceilings, totals = batch_ceilings(fleet, case), total_ceilings(fleet, limits, case)
    weights = fleet.gradient_variance * fleet.samples**2
    ours, _ = seconds(lambda: allocate(weights, ceilings, totals), 20)
    variance, samples = fleet.gradient_variance.tolist(), fleet.samples.tolist()
    start = time.perf_counter()
    printed = printed_split(variance, samples, ceilings[0].tolist(), float(totals[0]))
    theirs = time.perf_counter() - start
    quality = (weights / np.array(printed)).sum() / (
        weights / allocate(weights, ceilings, totals)
    ).sum()
    print(
        f"{n:>9,} clients, {local_steps} local steps   printed {theirs:7.2f} s   ours "
        f"{ours * 1e3:7.2f} ms   ratio {theirs / ours:,.0f}   noise printed/ours {quality:.9f}",
        flush=True,
    )
    return theirs / ours


def start_up() -> float:
    """Return the seconds from the command to the first line of its help."""
    taken = []
    for _ in range(7):
        start = time.perf_counter()
        command = [
            sys.executable,
            "-c",
            "from dynamite_fl._cli.main import main; main()",
            "plan",
            "--help",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603
            assert process.stdout is not None  # noqa: S101
            process.stdout.readline()
            taken.append(time.perf_counter() - start)
            process.stdout.read()
    return float(np.median(taken))


def open_rounds(n: int) -> None:
    """Print the seconds to find the best plan if the rounds are chosen too."""
    fleet, limits = fleet_of(n), replace(limits_for(n), rounds=None)
    taken, spread = seconds(lambda: cooptimize(fleet, limits, GEOMETRY), 3)
    print(f"{n:>9,} clients   rounds chosen too {taken:7.2f} s (spread {spread:.2f})", flush=True)


def verdicts(checks: dict[str, tuple[float, float]]) -> bool:
    """Print each figure beside its target, and return whether none exceeds it."""
    for name, (figure, target) in checks.items():
        word = "reached" if figure <= target else "MISSED"
        print(f"  {name}: {figure:.3g}, target {target:g}, {word}")
    return all(figure <= target for figure, target in checks.values())


def main() -> None:
    print("The planner, 100 local steps:")
    plan_times(20, 50)
    hundred, _ = plan_times(100, 50)
    plan_times(10_000, 5)
    smaller = plan_times(100_000, 3)
    larger = plan_times(1_000_000, 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print("A loss for which hardly any local steps can be excluded without sizing them:")
    plan_times(100, 20, HARD)
    plan_times(1_000_000, 1, HARD)
    for n in (20, 100, 100_000):
        open_rounds(n)
    print("One split beside the printed algorithm (plain Python, as printed):")
    ratio = [printed_ratio(n, 5) for n in (2500, 5000, 10_000)][-1]
    reached = verdicts(
        {
            "best plan of 100 clients, ms": (hundred * 1e3, 5.0),
            "all 100 plans of 100,000 clients, s": (smaller[1], 3.0),
            "a million clients to that, times": (larger[1] / smaller[1], 12.0),
            "peak memory, GB": (peak, 1.0),
            "ours to the printed split, thousandths": (1000 / ratio, 1.0),
            "dynamite plan --help to its first line, s": (start_up(), 0.5),
        }
    )
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()
