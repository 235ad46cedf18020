"""Every form of a claim, against numbers worked by hand."""

import pytest

from dynamite_fl.experiments.claim import Claim, Piece
from dynamite_fl.experiments.claims import Judged, claim_of, judge
from dynamite_fl.experiments.found import Found, difference_of
from dynamite_fl.experiments.markdown import likely
from dynamite_fl.tables import JobError
from tests.experiments.histories import found, history


def claim(form: str, **keys: object) -> Claim:
    return claim_of("claims[0]", {"says": "so it is", "form": form, **keys})


def judged(
    made: Claim, numbers: Found, panels: tuple[str, ...] = ("a",), scale: str = "laptop"
) -> Judged:
    return judge(made, numbers, scale, panels)[0]


def test_a_difference_and_its_standard_error() -> None:
    """1, 2, 6: mean 3, variance (4 + 1 + 9)/2 = 7, error sqrt(7/3) = 1.5275."""
    lead = difference_of([1.0, 2.0, 6.0])
    assert (lead.mean, lead.seeds) == (3.0, 3)
    assert lead.error == pytest.approx(1.527525)
    assert lead.exceeds(1.47)
    assert not lead.exceeds(1.48)
    assert lead.stays_within(4.53)
    assert not lead.stays_within(4.52)
    assert difference_of([3.0]).exceeds() is None


def test_ahead_counts_only_beyond_the_error_on_the_same_seeds() -> None:
    """Over b by 0.02 and 0.04: 0.03 ± 0.01. Over c by 0.10 and -0.02: 0.04 ± 0.06."""
    numbers = found({"a": {"we": [0.50, 0.60], "b": [0.48, 0.56], "c": [0.40, 0.62]}})
    one = judged(claim("ahead", of="we", over=["b"]), numbers)
    assert (one.says, one.verdict) == ("so it is", "holds")
    (piece,) = one.pieces
    assert (piece.where, piece.measured, piece.holds) == ("a: we over b", "+3.0 ± 1.0 points", True)
    assert piece.value == pytest.approx(0.03)
    both = judged(claim("ahead", of="we", over=["b", "c"]), numbers)
    assert both.verdict == "does not hold"
    assert [piece.holds for piece in both.pieces] == [True, False]
    assert both.pieces[1].measured == "+4.0 ± 6.0 points"
    assert judged(claim("ahead", of="we", over=["b"], by=0.019), numbers).verdict == "holds"
    assert judged(claim("ahead", of="we", over=["b"], by=0.021), numbers).verdict == "does not hold"


def test_ahead_by_a_share_where_less_is_better() -> None:
    """FedAvg ends at 0.6, which it reaches at a cost of 30; we do at 10 and 20: 2/3 and 1/3 less.

    Their mean is 1/2, their error 1/6.
    """
    numbers = Found(
        {
            "a": {
                "fedavg": {0: history([0.1, 0.2, 0.6]), 1: history([0.1, 0.2, 0.6])},
                "we": {0: history([0.6, 0.6, 0.7]), 1: history([0.5, 0.6, 0.7])},
            }
        }
    )
    keys = {"measure": "cost_to_target", "lower": True, "of": "we", "over": ["fedavg"]}
    less = judged(claim("ahead", **keys, share=True, by=0.33), numbers)
    assert less.verdict == "holds"
    assert less.pieces[0].measured == "50.0 ± 16.7 % less"
    assert less.pieces[0].where == "a: we below fedavg"
    assert judged(claim("ahead", **keys, share=True, by=0.34), numbers).verdict == "does not hold"
    units = judged(claim("ahead", **keys), numbers)
    assert units.pieces[0].measured == "15.0 ± 5.0 less"


def test_who_never_reaches_the_target_is_not_ahead() -> None:
    """Both stop at 0.2: we at a cost of 10, but short of FedAvg's mean of 0.4."""
    numbers = Found(
        {
            "a": {
                "fedavg": {0: history([0.1, 0.4]), 1: history([0.1, 0.4])},
                "we": {0: history([0.2]), 1: history([0.2])},
            }
        }
    )
    keys = {"measure": "cost_to_target", "lower": True, "of": "we", "over": ["fedavg"]}
    found_so = judged(claim("ahead", **keys), numbers)
    assert found_so.verdict == "does not hold"
    assert "not all seeds reach the target" in found_so.pieces[0].measured


def test_ahead_at_a_round() -> None:
    numbers = Found(
        {
            "a": {
                "we": {s: history([0.5, 0.6]) for s in (0, 1)},
                "b": {s: history([0.4, 0.7]) for s in (0, 1)},
            }
        }
    )
    assert judged(claim("ahead", of="we", over=["b"], at_round=1), numbers).verdict == "holds"
    late = judged(claim("ahead", of="we", over=["b"], at_round=2), numbers)
    assert late.verdict == "does not hold"
    never = judged(claim("ahead", of="we", over=["b"], at_round=3), numbers)
    assert never.verdict == "not at this scale"


def test_one_seed_shows_no_spread() -> None:
    numbers = found({"a": {"we": [0.9], "b": [0.1]}})
    single = judged(claim("ahead", of="we", over=["b"]), numbers)
    assert single.verdict == "one seed shows no spread"
    absent = judged(claim("ahead", of="we", over=["c"]), numbers)
    assert absent.verdict == "not at this scale"


def test_alike() -> None:
    """0.01 and -0.005 apart: mean 0.0025, error 0.0075, 0.01 with it."""
    numbers = found({"a": {"we": [0.51, 0.600], "b": [0.50, 0.605]}})
    assert judged(claim("alike", of="we", over=["b"], within=0.0101), numbers).verdict == "holds"
    apart = judged(claim("alike", of="we", over=["b"], within=0.0099), numbers)
    assert apart.verdict == "does not hold"


def test_level() -> None:
    """Accuracies 0.3 and 0.5: 0.4 ± 0.1."""
    numbers = found({"a": {"we": [0.3, 0.5]}})
    for keys, holds in [
        ({"above": 0.29}, True),
        ({"above": 0.31}, False),
        ({"below": 0.51}, True),
        ({"below": 0.49}, False),
        ({"equals": 0.4}, False),
    ]:
        verdict = judged(claim("level", of="we", **keys), numbers).verdict
        assert verdict == ("holds" if holds else "does not hold"), keys
    forgotten = Found({"a": {"we": {0: history([0.3], worst=0.0), 1: history([0.3], worst=0.004)}}})
    worst = claim("level", of="we", measure="worst_class", equals=0.0)
    assert judged(worst, forgotten).verdict == "holds"


def test_greater_in_one_panel_than_in_another() -> None:
    """Large less small: 0.3 and 0.3 in a, 0.1 and 0.2 in b: 0.15 ± 0.05 more."""
    numbers = found(
        {
            "a": {"large": [0.8, 0.9], "small": [0.5, 0.6]},
            "b": {"large": [0.5, 0.6], "small": [0.4, 0.4]},
        }
    )
    keys = {"of": "large", "panel": "a", "than": ["b"]}
    wider = judged(claim("greater", **keys, less="small"), numbers, ("a", "b"))
    assert wider.verdict == "holds"
    assert wider.pieces[0].measured == "+15.0 ± 5.0 points"
    assert judged(claim("greater", **keys), numbers, ("a", "b")).verdict == "holds"
    back = claim("greater", of="large", less="small", panel="b", than=["a"])
    assert judged(back, numbers, ("a", "b")).verdict == "does not hold"
    assert judged(back, numbers, ("a",)).verdict == "not at this scale"


def test_theorem_two() -> None:
    plans = {"a": {0: {20: (12, 5), 300: (6, 10)}, 1: {20: (9, 6), 300: (4, 15)}}}
    numbers = Found({}, plans=plans)
    assert judged(claim("theorem"), numbers).verdict == "holds"
    assert judged(claim("theorem", rounds=300, local_steps=5), numbers).verdict == "holds"
    assert judged(claim("theorem", rounds=300, local_steps=3), numbers).verdict == "does not hold"
    assert (
        judged(claim("theorem", rounds=40, local_steps=3), numbers).verdict == "not at this scale"
    )
    flat = Found({}, plans={"a": {0: {20: (6, 10), 300: (6, 10)}}})
    assert judged(claim("theorem"), flat).verdict == "does not hold"
    rising = Found({}, plans={"a": {0: {20: (6, 10), 300: (7, 8), 900: (2, 30)}}})
    assert judged(claim("theorem"), rising).verdict == "does not hold"


def test_the_same_of_another_is_told_apart() -> None:
    numbers = found({"a": {"we": [0.5, 0.5], "ours": [0.9, 0.9], "b": [0.6, 0.6]}})
    made = claim("ahead", of="we", over=["b"], also="ours", because={"laptop": "One step."})
    paper, ours = judge(made, numbers, "laptop", ("a",))
    assert (paper.verdict, paper.because) == ("does not hold", "One step.")
    assert likely(paper) == "Likely why: One step."
    assert (ours.says, ours.verdict, ours.because) == ("the same of ours", "holds", "")
    assert (paper.also, ours.also) == ("", "ours")


def test_panels_and_scales_that_were_not_run() -> None:
    numbers = found({"a": {"we": [0.5, 0.5], "b": [0.4, 0.4]}})
    made = claim("ahead", of="we", over=["b"])
    (partly,) = judge(made, numbers, "laptop", ("a",), absent=["c"])
    assert partly.verdict == "holds"
    assert partly.pieces[-1] == Piece("c", "not measured", None)
    elsewhere = claim("ahead", of="we", over=["b"], scales=["paper"])
    assert judged(elsewhere, numbers).verdict == "not at this scale"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"form": "ahed"}, r"claims\[0\].form is 'ahed': did you mean ahead\?"),
        ({"form": "ahead", "says": "x", "of": "a"}, r"claims\[0\] lacks over"),
        ({"form": "ahead", "says": "x", "of": "a", "ovr": []}, r"no key ovr; did you mean over\?"),
        ({"form": "level", "says": "x", "of": "a"}, "give just one of them"),
        ({"form": "level", "says": "x", "of": "a", "above": 1, "below": 2}, "give just one"),
        ({"form": "theorem", "says": "x", "rounds": 3}, "give both or none"),
        ("ahead", r"claims\[0\] must be a table"),
        ({"form": "ahead", "says": "x", "of": "a", "over": "b"}, "over must be a list of names"),
    ],
)
def test_what_cannot_be_used_is_named(table: object, message: str) -> None:
    with pytest.raises(JobError, match=message):
        claim_of("claims[0]", table)
