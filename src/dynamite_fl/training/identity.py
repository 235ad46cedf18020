"""What a run is of, beside its job: the content of ``run.json``."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.training.line_checks import digest

FORMAT = 5  # of the files in a run folder; it rises when an older version could not go on
_READABLE = (2, 3, 4, FORMAT)  # formats whose runs can be shown
_FIRST_WITH_CHECKS = 3  # the first format whose files have checks


class OtherFormat(ValueError):  # noqa: N818  it says what is the matter
    """The run was begun by a version whose files this one cannot read or go on with."""

    def __init__(self, begun_by: object, its_format: object) -> None:
        super().__init__(
            f"was begun by dynamite {begun_by}, whose files have format {its_format}; this is "
            f"{version('dynamite-fl')} with format {FORMAT}: go on with that version, or begin "
            "anew in another folder"
        )


@dataclass(frozen=True)
class Identity:
    """What a run is of, beside its job.

    Attributes:
        data: The digests of the training data, the test data and the model, by these names.
        folders: The folders in which modules of the user's own are looked for.
        leading_metric: The metric by which the run is judged.
        job: The digest of what has an effect in the job.
        format: The format of the folder's files.
        version: The version of this package that began the run.
        is_real: Whether the devices are real machines, not simulated ones.
        default_server: The name of the server optimiser, if the job leaves it out and it is not the
            plain average. Another version may have another default.

    Example:
        >>> Identity.from_text(Identity({"model": "1f"}).to_text()) == Identity({"model": "1f"})
        True
    """

    data: Mapping[str, str]
    folders: tuple[str, ...] = ()
    leading_metric: LeadingMetric = ACCURACY
    job: str = ""
    format: int = FORMAT
    version: str = version("dynamite-fl")
    is_real: bool = False
    default_server: str = ""

    @property
    def run(self) -> str:
        """A digest of the job, the data, the model and the metric, which tells runs apart.

        It also tells a run on real machines from a simulation of the same job.
        """
        parts = {"data": dict(self.data), "metric": asdict(self.leading_metric), "job": self.job}
        if self.is_real:
            parts["devices"] = "real"
        return digest(json.dumps(parts, sort_keys=True))

    @property
    def has_checks(self) -> bool:
        """Whether the files of the folder have checks."""
        return self.format >= _FIRST_WITH_CHECKS

    def require_current(self) -> None:
        """Refuse to go on with a run whose files have another format.

        Raises:
            OtherFormat: They have.
        """
        if self.format != FORMAT:
            raise OtherFormat(self.version, self.format)

    def to_text(self) -> str:
        """Return the content of ``run.json``, with a check."""
        values = asdict(self)
        for name in ("is_real", "default_server"):
            if not values[name]:
                del values[name]  # so that earlier versions can read what they could always read
        return json.dumps({**values, "check": _check(values)}) + "\n"

    @classmethod
    def from_text(cls, text: str) -> "Identity":
        """Read the content of ``run.json``.

        Raises:
            OtherFormat: The format is another one.
            ValueError: The content is damaged.
        """
        try:
            content = json.loads(text)
            if not isinstance(content, dict):
                raise TypeError("it is not a table")
            if content.get("format", FORMAT) not in _READABLE:
                raise OtherFormat(content.get("version"), content["format"])
            check = content.pop("check", None)
            has_check = check is not None or content.get("format", 0) >= _FIRST_WITH_CHECKS
            if has_check and check != _check(content):
                raise ValueError("its check is wrong")
            if not all(isinstance(path, str) for path in list(content["folders"])):
                raise TypeError("a folder is not text")
            if not isinstance(content.get("is_real", False), bool):
                raise TypeError("is_real is neither true nor false")
            if not isinstance(content.get("default_server", ""), str):
                raise TypeError("default_server is not text")
            converted = {
                "folders": tuple(content["folders"]),
                "data": dict(content["data"]),
                "leading_metric": _leading_metric(content),
            }
            return cls(**{**content, **converted})
        except (TypeError, KeyError, RecursionError) as error:
            raise ValueError(str(error)) from None


def _check(values: Mapping[str, Any]) -> str:
    return digest(json.dumps(values, sort_keys=True))


def _leading_metric(identity: Mapping[str, Any]) -> LeadingMetric:
    """Return the leading metric in the content of a ``run.json``; older ones have none."""
    if "leading_metric" not in identity:
        return ACCURACY
    metric = LeadingMetric(**identity["leading_metric"])
    if not isinstance(metric.name, str) or not isinstance(metric.higher_is_better, bool):
        raise TypeError("leading_metric has no name and direction")
    return metric
