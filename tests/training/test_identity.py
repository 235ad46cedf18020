"""What a run is of: written, read and refused."""

import json
from dataclasses import replace

import pytest

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.training.identity import FORMAT, Identity, OtherFormat

WHOLE = Identity(
    {"model": "3"}, ("/home/me",), LeadingMetric("rmse", False), "job", default_server="fedexp"
)


def test_what_was_written_is_read_again() -> None:
    assert Identity.from_text(WHOLE.to_text()) == WHOLE
    WHOLE.require_current()


def test_runs_differ_by_job_data_and_metric_and_by_nothing_else() -> None:
    others = [
        Identity({"model": "4"}, leading_metric=WHOLE.leading_metric, job="job"),
        Identity({"model": "3"}, leading_metric=ACCURACY, job="job"),
        Identity({"model": "3"}, leading_metric=WHOLE.leading_metric, job="another"),
    ]
    assert len({WHOLE.run, *(other.run for other in others)}) == 4
    same = Identity({"model": "3"}, (), WHOLE.leading_metric, "job", version="9")
    assert same.run == WHOLE.run


def test_every_change_of_the_text_is_found() -> None:
    """One bit of every byte is flipped; the format can become that of another version."""
    text = WHOLE.to_text()
    for place, letter in enumerate(text.rstrip()):
        flipped = text[:place] + chr(ord(letter) ^ 1) + text[place + 1 :]
        with pytest.raises(ValueError, match=r"\S"):
            Identity.from_text(flipped)


def test_an_older_format_can_be_read_but_not_gone_on_with() -> None:
    values = {**json.loads(WHOLE.to_text()), "format": 2}
    del values["check"], values["leading_metric"], values["job"]
    identity = Identity.from_text(json.dumps(values))
    assert identity.leading_metric == ACCURACY
    with pytest.raises(OtherFormat, match=f"format 2; .* with format {FORMAT}"):
        identity.require_current()


def test_the_format_before_has_checks() -> None:
    before = Identity.from_text(replace(WHOLE, format=3).to_text())
    assert before.has_checks
    with pytest.raises(OtherFormat, match="format 3"):
        before.require_current()
    values = json.loads(replace(WHOLE, format=3).to_text())
    del values["check"]
    with pytest.raises(ValueError, match="its check is wrong"):
        Identity.from_text(json.dumps(values))


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"data": 1, "color": 2, "folders": []}'])
def test_what_is_no_identity_is_refused(content: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        Identity.from_text(content)
