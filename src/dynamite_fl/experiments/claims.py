"""Claims of the paper, judged.

A claim is judged piece by piece: a panel, or a panel and a rival. A difference counts only if it
exceeds its standard error over seeds, where contenders are compared on the same seed (see
``Difference``). With two seeds that means: both seeds agree. A claim holds if all pieces hold
that could be judged, does not if one fails, and is not for this scale if none was measured. What
was measured on one seed only cannot be judged: it shows no spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dynamite_fl.config import table_record
from dynamite_fl.experiments.claim import Claim, Piece
from dynamite_fl.experiments.forms import Ahead, Alike, Greater, Level, TheoremTwo
from dynamite_fl.experiments.found import Found
from dynamite_fl.tables import JobError, suggestion

_LISTS = ("over", "than", "panels", "scales")
Verdict = Literal["holds", "does not hold", "not at this scale", "one seed shows no spread"]


FORMS: dict[str, type[Claim]] = {
    "ahead": Ahead,
    "alike": Alike,
    "level": Level,
    "greater": Greater,
    "theorem": TheoremTwo,
}


@dataclass(frozen=True)
class Judged:
    """A claim, and what came of it.

    Attributes:
        says: The claim in words.
        verdict: Whether it holds.
        pieces: By which comparisons.
        because: Why it likely does not hold; empty if that is not said.
        also: Of whom the same is asked that the paper says of another; empty if it is its own.
    """

    says: str
    verdict: Verdict
    pieces: Sequence[Piece]
    because: str = ""
    also: str = ""


def claim_of(key: str, table: Any) -> Claim:
    """The claim that a table spells out.

    Raises:
        JobError: It cannot be used.
    """
    if not isinstance(table, dict):
        raise JobError(f"{key} must be a table")
    form = table.get("form")
    if form not in FORMS:
        raise JobError(f"{key}.form is {form!r}: {suggestion(str(form), FORMS)}")
    for name in _LISTS:
        if name in table and not isinstance(table[name], list):
            raise JobError(f"{key}.{name} must be a list of names")
    return table_record(FORMS[form], key, {k: v for k, v in table.items() if k != "form"})


def judge(
    claim: Claim, found: Found, scale: str, panels: Sequence[str], absent: Sequence[str] = ()
) -> list[Judged]:
    """The claim as the paper makes it, and the same of whom it names with ``also``.

    Args:
        claim: What is said.
        found: What was measured.
        scale: At which the runs are.
        panels: Those of this scale.
        absent: Those that the paper has and this scale has not.
    """
    judged = [_judge(claim, claim.says, found, scale, panels, absent)]
    if judged[0].verdict == "does not hold":
        judged[0] = replace(judged[0], because=claim.because.get(scale, ""))
    if claim.also and scale in (claim.scales or (scale,)):
        ours = replace(claim, of=claim.also)  # type: ignore[call-arg]  # forms with also have it
        says = f"the same of {claim.also}"
        judged.append(replace(_judge(ours, says, found, scale, panels, absent), also=claim.also))
    return judged


def _judge(
    claim: Claim,
    says: str,
    found: Found,
    scale: str,
    panels: Sequence[str],
    absent: Sequence[str],
) -> Judged:
    if claim.scales and scale not in claim.scales:
        return Judged(says, "not at this scale", ())
    wanted = claim.panels or [*panels, *absent]
    pieces = list(claim.pieces(found, [panel for panel in wanted if panel in panels]))
    if not isinstance(claim, Greater):  # which names its panels itself
        pieces += [Piece(panel, "not measured", None) for panel in wanted if panel in absent]
    known = [piece.holds for piece in pieces if piece.holds is not None]
    if not known:
        measured = any(piece.value is not None for piece in pieces)
        return Judged(says, "one seed shows no spread" if measured else "not at this scale", pieces)
    return Judged(says, "holds" if all(known) else "does not hold", pieces)
