"""The planner's numbers for a training job: nominal ones, or those that a pilot run measures."""

from dataclasses import replace
from pathlib import Path

from dynamite_fl._format import count
from dynamite_fl.errors import JobError
from dynamite_fl.job.build import build_engine, build_privacy
from dynamite_fl.job.planning import PlanningJob, assumed_geometry
from dynamite_fl.job.read import table_record
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.plan.feasibility import fit_rounds
from dynamite_fl.records import LossGeometry
from dynamite_fl.training.pilot import pilot
from dynamite_fl.training.private_mechanism import require_a_round
from dynamite_fl.training.private_rules import with_private_rounds


def plan_training_job(
    job: TrainingJob, data_dir: Path | None = None, pilot_rounds: int | None = None
) -> PlanningJob:
    """Return what to plan for a training job.

    Devices have their nominal speeds. A pilot run measures the gradient variance of every client
    and the constants of the loss. Without one, the constants are those of the job's table
    ``geometry``, or an example, and all variances are 1. As in a training, the rounds of the limits
    are the most: there are fewer if not all of them fit.

    Args:
        job: The training job.
        data_dir: The folder that holds datasets. Default: ``$DYNAMITE_DATA``.
        pilot_rounds: The number of rounds of the pilot run; None for no pilot run.

    Raises:
        JobError: The job cannot be used; the message says what to change.
        Infeasible: The limits do not allow a single round.

    Example:
        >>> from dynamite_fl.job.training import load_training_job
        >>> planning = plan_training_job(load_training_job())
        >>> len(planning.fleet), planning.limits.rounds, planning.notes[0]
        (10, 150, 'The devices have their nominal speeds.')
    """
    engine, rate, given = build_engine(job, data_dir), job.settings.learning_rate, "geometry"
    fleet, notes = engine.enroll(), ["The devices have their nominal speeds."]
    allowed, privacy = job.limits, build_privacy(job, len(fleet), is_real=False)
    if privacy is not None:
        require_a_round(privacy, job.limits)
        allowed = with_private_rounds(job.limits, privacy, privacy.first_state())
        notes.append(f"Epsilon allows {count(privacy.most_releases, 'round')}.")
    limits = fit_rounds(fleet, allowed)
    if pilot_rounds is not None and privacy is not None:
        raise JobError("the table privacy does not protect a pilot run: omit --pilot")
    if pilot_rounds is not None:
        if given in job.tables:
            raise JobError("the job has [geometry], so there is nothing to measure: omit --pilot")
        measured = pilot(engine, job.limits, rate, pilot_rounds)
        engine.close()
        geometry: LossGeometry = measured["geometry"]
        fleet = fleet.with_columns(gradient_variance=measured["gradient_variance"])
        notes.append(
            f"The loss was measured in a pilot run of {count(pilot_rounds, 'round')}, which is not "
            "charged."
        )
    elif given in job.tables:
        known = {} if rate is None else {"learning_rate": rate}
        geometry = table_record(LossGeometry, given, {**known, **job.tables[given]})
        notes.append("All gradient variances are taken as 1. --pilot measures them.")
    else:
        geometry = assumed_geometry()
        if rate is not None:
            geometry = replace(geometry, learning_rate=rate)
        notes.append(
            "The constants of the loss are an example, not of this task, and all gradient "
            "variances are taken as 1. --pilot measures them."
        )
    return PlanningJob(fleet, limits, geometry, notes=tuple(notes))
