"""A claim of the paper: what all forms of it have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dynamite_fl.experiments.found import Found


@dataclass(frozen=True)
class Piece:
    """One comparison of a claim.

    Attributes:
        where: Panel, and whom with.
        measured: The figure in words, with its spread.
        holds: None if it could not be judged.
        value: The figure; None if there is none, or no single one.
    """

    where: str
    measured: str
    holds: bool | None
    value: float | None = None


@dataclass(frozen=True, kw_only=True)
class Claim(ABC):
    """What all forms have.

    Attributes:
        says: The claim in words.
        measure: What is compared.
        panels: In which panels; all without it.
        scales: At which scales it can be judged; all without it.
        also: A contender for whom the same is asked in place of ``of``, and told apart.
        because: Why it may not hold, by scale; no figures, as it is shown beside anybody's runs.
    """

    says: str
    measure: str = "accuracy"
    panels: Sequence[str] = ()
    scales: Sequence[str] = ()
    also: str = ""
    because: Mapping[str, str] = field(default_factory=dict)

    @abstractmethod
    def pieces(self, found: Found, panels: Sequence[str]) -> Iterator[Piece]:
        """Each comparison, judged."""

    def named_contenders(self) -> Iterator[tuple[str, str]]:
        """Contenders that it names, and by which key."""
        for key in ("of", "less", "over", "also"):
            words = getattr(self, key, None) or ()
            for word in [words] if isinstance(words, str) else words:
                yield key, word

    def named_panels(self) -> Iterator[tuple[str, str]]:
        """Panels that it names, and by which key."""
        for key in ("panels", "panel", "than"):
            words = getattr(self, key, None) or ()
            for word in [words] if isinstance(words, str) else words:
                yield key, word
