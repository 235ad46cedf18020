"""What a device does with gradients: any optimiser of torch, clipping, and FedProx's term."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dynamite_fl._load import user_code
from dynamite_fl._validate import check_name, check_number
from dynamite_fl.errors import InvalidInput

MADE_IN_PYTHON = "made in Python:"  # how the name of a function begins in a job's table
MakeOptimizer = Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]

# Optimisers by the names of torch's classes. LBFGS needs a loss that it can call again, and
# SparseAdam sparse gradients.
NAMES = tuple(
    sorted(
        name
        for name, value in vars(torch.optim).items()
        if isinstance(value, type)
        and issubclass(value, torch.optim.Optimizer)
        and name not in ("Optimizer", "LBFGS", "SparseAdam")
    )
)


@dataclass(frozen=True, init=False)
class Optimizer:
    """The optimiser of local steps.

    Attributes:
        name: The name of a class of ``torch.optim``, such as ``SGD`` or ``AdamW``; or a function
            from weights and learning rate to an optimiser.
        options: The other arguments of that class, such as ``momentum``. They are given by name.
        clip_norm: The largest norm of a gradient, to which larger ones are scaled down. Default:
            no limit.
        proximal: The factor mu of FedProx's term mu/2 |w - w_global|^2 (Li et al., 2020), which
            keeps local models near the global one. Default: 0, no such term.
        keep_state: Whether a device keeps the optimiser's state, such as momentum, from its round
            to its next. Default: every round begins with a fresh state.

    Example:
        >>> adam = Optimizer("AdamW", weight_decay=0.1, clip_norm=1.0)
        >>> adam.make([nn.Parameter(torch.zeros(2))], 0.01).defaults["weight_decay"]
        0.1
    """

    name: str | MakeOptimizer
    options: Mapping[str, Any]
    clip_norm: float | None
    proximal: float
    keep_state: bool

    def __init__(
        self,
        name: str | MakeOptimizer = "SGD",
        *,
        clip_norm: float | None = None,
        proximal: float = 0.0,
        keep_state: bool = False,
        **options: Any,
    ) -> None:
        values = {"name": name, "clip_norm": clip_norm, "proximal": proximal}
        for key, value in {**values, "keep_state": keep_state, "options": options}.items():
            object.__setattr__(self, key, value)  # the dataclass is frozen
        if self.clip_norm is not None:
            check_number("optimizer.clip_norm", self.clip_norm, positive=True)
        check_number("optimizer.proximal", self.proximal)
        if not isinstance(self.keep_state, bool):
            raise InvalidInput(f"optimizer.keep_state is {self.keep_state!r}: use true or false")
        if isinstance(self.name, str):
            object.__setattr__(self, "name", _class_name(self.name))
            if self.name != "SGD" or options:  # a trial loads torch's compiler, which takes long
                self._check_options()
        elif options or not callable(name):
            raise InvalidInput("an optimizer is a name with options, or a function without them")

    @property
    def is_plain(self) -> bool:
        """Whether a step is minus the learning rate times the gradient, and nothing else."""
        return (
            self.name == "SGD"
            and not any(self.options.values())
            and self.clip_norm is None
            and self.proximal == 0
        )

    def make(
        self, parameters: Sequence[nn.Parameter], learning_rate: float
    ) -> torch.optim.Optimizer:
        """Return a new optimiser of torch with a fresh state.

        Raises:
            InvalidInput: Torch refuses the options or the weights, or it is no such optimiser.
        """
        if isinstance(self.name, str):
            kind = getattr(torch.optim, self.name)
            try:
                return kind(parameters, lr=learning_rate, **self.options)  # type: ignore[no-any-return]
            except Exception as error:  # torch checks options in many ways
                raise InvalidInput(f"optimizer {self.name} cannot be made: {error}") from None
        with user_code("the optimizer's function, called with weights and learning rate,"):
            made = self.name(parameters, learning_rate)
        if isinstance(made, torch.optim.LBFGS):
            raise InvalidInput(
                "the optimizer LBFGS computes a loss several times in a step: "
                "local steps compute it once, so use another"
            )
        if not isinstance(made, torch.optim.Optimizer):
            raise InvalidInput(
                f"the optimizer's function returned a {type(made).__name__}: it must return a "
                "torch.optim.Optimizer"
            )
        return made

    @staticmethod
    def from_table(table: Mapping[str, Any]) -> "Optimizer":
        """Read the table ``optimizer`` of a job: our own keys, and torch's options beside them.

        Example:
            >>> Optimizer.from_table({"name": "sgd", "momentum": 0.9}).options
            {'momentum': 0.9}
        """
        return Optimizer(**table)

    def to_table(self) -> dict[str, Any]:
        """Return the table ``optimizer`` of a job, without what is at its default."""
        name = self.name
        if not isinstance(name, str):
            name = f"{MADE_IN_PYTHON} {getattr(name, '__qualname__', type(name).__name__)}"
        own = {"clip_norm": self.clip_norm, "proximal": self.proximal}
        own["keep_state"] = self.keep_state
        return {"name": name, **self.options, **{key: own[key] for key in own if own[key]}}

    def _check_options(self) -> None:
        """Refuse options that torch's class does not take, before the first round."""
        taken = inspect.signature(getattr(torch.optim, str(self.name))).parameters
        for option, value in self.options.items():
            if option == "lr":
                raise InvalidInput("optimizer.lr is not used: set training.learning_rate")
            check_name(f"option of {self.name}", option, list(taken)[1:])
            _check_option(option, value, taken[option].default)
        weight = nn.Parameter(torch.zeros(1, 1))
        weight.grad = torch.ones(1, 1)
        optimizer = self.make([weight], 0.1)
        try:
            optimizer.step()
        except Exception as error:  # options that only some devices have, or that no step can have
            raise InvalidInput(f"optimizer {self.name} cannot take a step: {error}") from None


def _check_option(name: str, value: object, default: object) -> None:
    """Refuse a value of another type than the option's default: torch would take true for 1."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise InvalidInput(f"optimizer.{name} is {value!r}: use true or false")
    elif isinstance(default, int | float):
        if not _is_number(value):
            raise InvalidInput(f"optimizer.{name} is {value!r}: it must be a number")
    elif isinstance(default, tuple):
        given = list(value) if isinstance(value, list | tuple) else []
        if len(given) != len(default) or not all(v is None or _is_number(v) for v in given):
            raise InvalidInput(f"optimizer.{name} is {value!r}: give {len(default)} numbers")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Tensor) and not isinstance(value, bool)


def _class_name(name: str) -> str:
    """Return the name of torch's class, whatever its letters' case."""
    by_lower = {known.lower(): known for known in NAMES}
    if name.lower() not in by_lower:
        check_name("optimizer", name, NAMES)
    return by_lower[name.lower()]


@dataclass(frozen=True, eq=False)
class StateEntry:
    """One number or tensor of an optimiser's state.

    Attributes:
        parameter: The position of the weight that it belongs to.
        name: The name of the entry, such as ``exp_avg``.
        value: The value of the entry.
    """

    parameter: int
    name: str
    value: Tensor


def read_state(optimizer: torch.optim.Optimizer) -> tuple[StateEntry, ...]:
    """Return an optimiser's state in a form that checkpoints can hold.

    Raises:
        InvalidInput: The optimiser keeps something else than numbers and tensors.
    """
    entries = []
    for position, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            if value is None:
                continue
            if not isinstance(value, Tensor | int | float):
                raise InvalidInput(
                    f"the optimizer keeps a {type(value).__name__} as {name}, but only numbers and "
                    "tensors can be kept: use keep_state = false"
                )
            entries.append(
                StateEntry(position, name, torch.as_tensor(value).detach().cpu().clone())
            )
    return tuple(entries)


def load_state(optimizer: torch.optim.Optimizer, entries: Sequence[StateEntry]) -> None:
    """Put a state that ``read_state`` returned into an optimiser."""
    state: dict[int, dict[str, Tensor]] = {}
    for entry in entries:
        # The optimiser changes its state in place, so it gets a copy.
        state.setdefault(entry.parameter, {})[entry.name] = entry.value.clone()
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
