"""Records of rounds with values chosen by hand."""

from typing import Any

from dynamite_fl.training.round_record import RoundRecord


def record(number: int, *, accuracy: float | None = None, **values: Any) -> RoundRecord:
    """Return a round that takes 10 seconds and costs 2, with one local step unless told.

    With an accuracy, it is the only metric of the round.
    """
    if accuracy is not None:
        values["metrics"] = {"accuracy": accuracy}
    defaults: dict[str, Any] = {
        "round": number,
        "seconds": 10.0 * number,
        "cost": 2.0 * number,
        "local_steps": 1,
        "batch_mean": 5.0,
    }
    return RoundRecord(**{**defaults, **values})
