"""The embedded job's fleet, limits and loss, as an example for tests."""

from dynamite_fl import Fleet, Limits
from dynamite_fl.config import load_job

EXAMPLE = load_job().geometry


def example() -> tuple[Fleet, Limits]:
    job = load_job()
    return job.fleet, job.limits
