import pytest

from dynamite_fl.errors import InvalidInput
from dynamite_fl.job.training import resolve_tables
from dynamite_fl.training.averaging import AVERAGINGS, TrimmedMean, averaging_table, make_averaging


@pytest.mark.parametrize("name", AVERAGINGS)
def test_a_table_makes_the_same_object_again(name: str) -> None:
    assert make_averaging(**averaging_table(make_averaging(name))) == make_averaging(name)


@pytest.mark.parametrize("share", [-0.1, 0.5, 1.0, float("nan"), "many"])
def test_shares_that_cannot_be_trimmed(share: float) -> None:
    with pytest.raises(InvalidInput, match=r"averaging\.share"):
        TrimmedMean(share=share)


def test_an_unknown_name() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'median'"):
        make_averaging("meadian")


def test_a_job_names_it_or_leaves_it_to_the_engine(tmp_path: object) -> None:
    tables = {
        "task": {"model": "softmax", "dataset": "digits"},
        "limits": {"deadline": 5, "budget": 5, "cost_per_sample": 1, "cost_per_round": 1},
        "training": {"learning_rate": 0.1},
    }
    assert "averaging" not in resolve_tables(dict(tables), tmp_path)  # type: ignore[arg-type]
    named = resolve_tables({**tables, "averaging": "trimmed-mean"}, tmp_path)  # type: ignore[arg-type]
    assert named["averaging"] == {"name": "trimmed-mean", "share": 0.2}
