"""The embedded job's fleet, limits and loss, as an example for tests."""

from dynamite_fl import Fleet, Limits
from dynamite_fl.job.planning import load_planning_job

EXAMPLE = load_planning_job().geometry


def example() -> tuple[Fleet, Limits]:
    job = load_planning_job()
    return job.fleet, job.limits
