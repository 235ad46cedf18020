"""Every kind of claim, against numbers worked by hand."""

import pytest

from dynamite_fl.experiments.claims import Claim, Comparison, Verdict, judge
from dynamite_fl.experiments.markdown import reason_in_words
from dynamite_fl.experiments.outcome import Outcome
from tests.experiments.histories import history, outcome


def claim(kind: str, **keys: object) -> Claim:
    return Claim(says="so it is", kind=kind, **keys)  # type: ignore[arg-type]


def judged(
    made: Claim, numbers: Outcome, panels: tuple[str, ...] = ("a",), scale: str = "laptop"
) -> Verdict:
    return judge(made, numbers, scale, panels)[0]


def test_a_difference_counts_only_beyond_its_standard_error() -> None:
    """1, 2, 6 hundredths: mean 3, variance (4 + 1 + 9)/2 = 7, error sqrt(7/3) = 1.5275."""
    numbers = outcome({"a": {"we": [0.51, 0.52, 0.56], "b": [0.5, 0.5, 0.5]}})
    for kind, threshold, holds in [
        ("ahead", 0.0147, True),
        ("ahead", 0.0148, False),
        ("alike", 0.0453, True),
        ("alike", 0.0452, False),
    ]:
        verdict = judged(claim(kind, of="we", over=["b"], threshold=threshold), numbers).verdict
        assert verdict == ("holds" if holds else "does not hold"), (kind, threshold)


def test_ahead_counts_only_beyond_the_error_on_the_same_seeds() -> None:
    """Over b by 0.02 and 0.04: 0.03 ± 0.01. Over c by 0.10 and -0.02: 0.04 ± 0.06."""
    numbers = outcome({"a": {"we": [0.50, 0.60], "b": [0.48, 0.56], "c": [0.40, 0.62]}})
    one = judged(claim("ahead", of="we", over=["b"]), numbers)
    assert (one.says, one.verdict) == ("so it is", "holds")
    (comparison,) = one.comparisons
    assert (comparison.where, comparison.measured, comparison.holds) == (
        "a: we over b",
        "+3.0 ± 1.0 points",
        True,
    )
    assert comparison.value == pytest.approx(0.03)
    both = judged(claim("ahead", of="we", over=["b", "c"]), numbers)
    assert both.verdict == "does not hold"
    assert [each.holds for each in both.comparisons] == [True, False]
    assert both.comparisons[1].measured == "+4.0 ± 6.0 points"
    assert judged(claim("ahead", of="we", over=["b"], threshold=0.019), numbers).verdict == "holds"
    assert (
        judged(claim("ahead", of="we", over=["b"], threshold=0.021), numbers).verdict
        == "does not hold"
    )


def test_ahead_by_a_share_where_less_is_better() -> None:
    """FedAvg ends at 0.6, which it reaches at a cost of 30; we do at 10 and 20: 2/3 and 1/3 less.

    Their mean is 1/2, their error 1/6.
    """
    numbers = Outcome(
        {
            "a": {
                "fedavg": {0: history([0.1, 0.2, 0.6]), 1: history([0.1, 0.2, 0.6])},
                "we": {0: history([0.6, 0.6, 0.7]), 1: history([0.5, 0.6, 0.7])},
            }
        }
    )
    keys = {"measure": "cost_to_target", "lower": True, "of": "we", "over": ["fedavg"]}
    less = judged(claim("ahead", **keys, relative=True, threshold=0.33), numbers)
    assert less.verdict == "holds"
    assert less.comparisons[0].measured == "50.0 ± 16.7 % less"
    assert less.comparisons[0].where == "a: we below fedavg"
    assert (
        judged(claim("ahead", **keys, relative=True, threshold=0.34), numbers).verdict
        == "does not hold"
    )
    units = judged(claim("ahead", **keys), numbers)
    assert units.comparisons[0].measured == "15.0 ± 5.0 less"


def test_a_contender_that_never_reaches_the_target_is_not_ahead() -> None:
    """Both stop at 0.2: we at a cost of 10, but short of FedAvg's mean of 0.4."""
    numbers = Outcome(
        {
            "a": {
                "fedavg": {0: history([0.1, 0.4]), 1: history([0.1, 0.4])},
                "we": {0: history([0.2]), 1: history([0.2])},
            }
        }
    )
    keys = {"measure": "cost_to_target", "lower": True, "of": "we", "over": ["fedavg"]}
    short = judged(claim("ahead", **keys), numbers)
    assert short.verdict == "does not hold"
    assert "not all seeds reach the target" in short.comparisons[0].measured


def test_ahead_at_a_round() -> None:
    numbers = Outcome(
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
    numbers = outcome({"a": {"we": [0.9], "b": [0.1]}})
    single = judged(claim("ahead", of="we", over=["b"]), numbers)
    assert single.verdict == "one seed shows no spread"
    absent = judged(claim("ahead", of="we", over=["c"]), numbers)
    assert absent.verdict == "not at this scale"


def test_a_claim_that_two_are_alike_has_a_threshold() -> None:
    """0.01 and -0.005 apart: mean 0.0025, error 0.0075, 0.01 with it."""
    numbers = outcome({"a": {"we": [0.51, 0.600], "b": [0.50, 0.605]}})
    assert judged(claim("alike", of="we", over=["b"], threshold=0.0101), numbers).verdict == "holds"
    apart = judged(claim("alike", of="we", over=["b"], threshold=0.0099), numbers)
    assert apart.verdict == "does not hold"


def test_above_below_and_equals() -> None:
    """Accuracies 0.3 and 0.5: 0.4 ± 0.1."""
    numbers = outcome({"a": {"we": [0.3, 0.5]}})
    for kind, number, holds in [
        ("above", 0.29, True),
        ("above", 0.31, False),
        ("below", 0.51, True),
        ("below", 0.49, False),
        ("equals", 0.4, False),
    ]:
        verdict = judged(claim(kind, of="we", threshold=number), numbers).verdict
        assert verdict == ("holds" if holds else "does not hold"), (kind, number)
    forgotten = Outcome(
        {"a": {"we": {0: history([0.3], worst=0.0), 1: history([0.3], worst=0.004)}}}
    )
    worst = claim("equals", of="we", measure="worst_class")
    assert judged(worst, forgotten).verdict == "holds"


def test_greater_in_one_panel_than_in_another() -> None:
    """Large less small: 0.3 and 0.3 in a, 0.1 and 0.2 in b: 0.15 ± 0.05 more."""
    numbers = outcome(
        {
            "a": {"large": [0.8, 0.9], "small": [0.5, 0.6]},
            "b": {"large": [0.5, 0.6], "small": [0.4, 0.4]},
        }
    )
    keys = {"of": "large", "panels": ["a"], "than": ["b"]}
    wider = judged(claim("greater", **keys, minus="small"), numbers, ("a", "b"))
    assert wider.verdict == "holds"
    assert wider.comparisons[0].measured == "+15.0 ± 5.0 points"
    assert judged(claim("greater", **keys), numbers, ("a", "b")).verdict == "holds"
    back = claim("greater", of="large", minus="small", panels=["b"], than=["a"])
    assert judged(back, numbers, ("a", "b")).verdict == "does not hold"
    assert judged(back, numbers, ("a",)).verdict == "not at this scale"


def test_claims_about_the_plans_of_theorem_2() -> None:
    plans = {"a": {0: {20: (12, 5), 300: (6, 10)}, 1: {20: (9, 6), 300: (4, 15)}}}
    numbers = Outcome({}, plans=plans)
    assert judged(claim("theorem-falls"), numbers).verdict == "holds"
    assert judged(claim("theorem-near", rounds=300, local_steps=5), numbers).verdict == "holds"
    assert (
        judged(claim("theorem-near", rounds=300, local_steps=3), numbers).verdict == "does not hold"
    )
    assert (
        judged(claim("theorem-near", rounds=40, local_steps=3), numbers).verdict
        == "not at this scale"
    )
    flat = Outcome({}, plans={"a": {0: {20: (6, 10), 300: (6, 10)}}})
    assert judged(claim("theorem-falls"), flat).verdict == "does not hold"
    rising = Outcome({}, plans={"a": {0: {20: (6, 10), 300: (7, 8), 900: (2, 30)}}})
    assert judged(claim("theorem-falls"), rising).verdict == "does not hold"


def test_the_same_claim_about_another_contender_is_separate() -> None:
    numbers = outcome({"a": {"we": [0.5, 0.5], "ours": [0.9, 0.9], "b": [0.6, 0.6]}})
    made = claim("ahead", of="we", over=["b"], also_of="ours", because={"laptop": "One step."})
    paper, ours = judge(made, numbers, "laptop", ("a",))
    assert (paper.verdict, paper.because) == ("does not hold", "One step.")
    assert reason_in_words(paper) == "Likely why: One step."
    assert (ours.says, ours.verdict, ours.because) == ("the same for ours", "holds", "")
    assert (paper.also_of, ours.also_of) == ("", "ours")


def test_panels_that_were_not_run() -> None:
    numbers = outcome({"a": {"we": [0.5, 0.5], "b": [0.4, 0.4]}})
    made = claim("ahead", of="we", over=["b"])
    (partly,) = judge(made, numbers, "laptop", ("a",), absent=["c"])
    assert partly.verdict == "holds"
    assert partly.comparisons[-1] == Comparison("c", "not measured", None)
    elsewhere = claim("ahead", of="we", over=["b"], panels=["c"])
    assert judge(elsewhere, numbers, "laptop", ("a",), ["c"])[0].verdict == "not at this scale"
