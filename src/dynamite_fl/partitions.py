"""Recipes that say how the training samples are split among the clients.

A recipe is independent of the data and of the number of clients: ``train`` and the ``[partition]``
table of a job take one, and its ``split`` makes the ``Partition``. The kind in a job is the name
here: ``kind = "dirichlet"`` is ``dirichlet``.

Example:
    >>> partition = dirichlet(alpha=0.3).split(np.arange(1000) % 10, clients=20, seed=1)
    >>> len(partition), int(partition.sizes.sum())
    (20, 1000)
"""
# ruff: noqa: ARG002, N801  recipes share one signature, and are called like functions

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dynamite_fl._validate import check_keys, check_name, check_number, check_whole
from dynamite_fl.errors import InvalidInput, JobError
from dynamite_fl.records import IntArray
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.partition_checks import (
    check_enough,
    checked_list,
    checked_rows,
    class_labels,
)
from dynamite_fl.task.splitting import (
    fill_empty_clients,
    half_by_label,
    take_turns,
    whole_parts,
)

__all__ = [
    "PartitionRecipe",
    "by_owner",
    "dirichlet",
    "fixed",
    "partition_from_table",
    "shards",
    "unequal",
    "wang",
]

Targets: TypeAlias = NDArray[Any]


class PartitionRecipe(ABC):
    """A way to split training samples among clients."""

    @property
    def kind(self) -> str:
        """The name of the recipe, as ``partition.kind`` in a job has it."""
        return type(self).__name__

    @property
    def uses_labels(self) -> bool:
        """Whether samples are split by their labels; otherwise only their number is used."""
        return True

    def to_table(self) -> dict[str, Any]:
        """Return the recipe as the ``[partition]`` table of a job.

        Example:
            >>> dirichlet(alpha=0.3).to_table()
            {'kind': 'dirichlet', 'alpha': 0.3}
        """
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]

    @abstractmethod
    def split(
        self, targets: Targets, clients: int, seed: int = 0, owners: IntArray | None = None
    ) -> Partition:
        """Split the training samples.

        Args:
            targets: The targets of the training samples, (D, ...). Recipes that split by class
                need whole-number labels, (D,).
            clients: The number of clients.
            seed: The seed of random draws.
            owners: The client that each sample comes from, (D,), where the data says so.

        Raises:
            InvalidInput: The samples cannot be split in this way.
        """


@dataclass(frozen=True)
class dirichlet(PartitionRecipe):
    """Split each class among the clients by proportions drawn from Dirichlet(alpha).

    The smaller alpha is, the fewer classes a client has. A client that would get no sample gets one
    from a client that has the most.

    T.-M. H. Hsu, H. Qi, M. Brown: Measuring the Effects of Non-Identical Data Distribution for
    Federated Visual Classification. arXiv:1909.06335, 2019.

    Attributes:
        alpha: The concentration of the distribution, above 0.

    Example:
        >>> labels = np.repeat(np.arange(10), 100)
        >>> partition = dirichlet(alpha=0.3).split(labels, clients=20, seed=1)
        >>> partition.sizes.sum(), partition.sizes.min() >= 1
        (np.int64(1000), np.True_)
    """

    alpha: float

    def __post_init__(self) -> None:
        check_number("partition.alpha", self.alpha, positive=True)

    def split(
        self, targets: Targets, clients: int, seed: int = 0, owners: IntArray | None = None
    ) -> Partition:
        """Split the training samples; see ``PartitionRecipe.split``."""
        labels = class_labels(targets, "partition dirichlet")
        check_enough(labels.size, clients)
        random = np.random.default_rng(seed)
        owner = np.empty(labels.size, dtype=np.int64)
        for label in np.unique(labels):
            members = random.permutation(np.flatnonzero(labels == label))
            shares = random.dirichlet(np.full(clients, self.alpha))
            owner[members] = np.repeat(np.arange(clients), whole_parts(shares, members.size))
        fill_empty_clients(owner, clients, random)
        return Partition.from_owners(owner, clients)


@dataclass(frozen=True)
class wang(PartitionRecipe):
    """Split the samples as in one of the four cases of Wang et al., as their code does it.

    Case 1: sample i goes to client i mod n. Case 2: a sample goes to client label mod n. Case 3:
    every client has all samples. Case 4: half of the clients share the lower half of the labels
    as in case 1, and the other half share the upper half as in case 2. Where clients outnumber
    labels, clients that are equal modulo the number of labels take turns.

    S. Wang et al.: Adaptive Federated Learning in Resource Constrained Edge Computing Systems.
    IEEE Journal on Selected Areas in Communications 37(6), 2019.

    Attributes:
        case: The number of the case, from 1 to 4. Cases 1 and 3 do not use the targets.

    Example:
        >>> labels = np.array([0, 1, 2, 0, 1, 2])
        >>> wang(case=2).split(labels, clients=3).indices(2)
        array([2, 5])
        >>> wang(case=2).split(labels, clients=6).indices(5)
        array([5])
    """

    case: int

    def __post_init__(self) -> None:
        check_whole("partition.case", self.case, least=1, most=4)

    @property
    def uses_labels(self) -> bool:
        """Whether samples are split by their labels: in the cases 2 and 4."""
        return self.case in (2, 4)

    def split(
        self, targets: Targets, clients: int, seed: int = 0, owners: IntArray | None = None
    ) -> Partition:
        """Split the training samples; see ``PartitionRecipe.split``. Nothing is drawn."""
        check_enough(len(targets), min(clients, 1) if self.case == 3 else clients)
        position = np.arange(len(targets))
        if self.case == 3:
            sizes = np.full(clients, len(targets))
            return Partition(position, first=np.zeros(clients, dtype=np.int64), sizes=sizes)
        if self.case == 1:
            return Partition.from_owners(position % clients, clients)
        labels = class_labels(targets, f"partition wang with case {self.case}")
        label = labels - labels.min()
        count = int(label.max()) + 1
        owner = label % clients if self.case == 2 else half_by_label(label, count, clients)
        return Partition.from_owners(take_turns(owner, clients, count), clients)


@dataclass(frozen=True)
class shards(PartitionRecipe):
    """Sort the samples by label, cut them into equal shards and deal these to the clients.

    B. McMahan et al.: Communication-Efficient Learning of Deep Networks from Decentralized Data.
    AISTATS 2017. They deal two shards to each client, so that most clients have two classes.

    Attributes:
        per_client: The number of shards that each client gets.

    Example:
        >>> labels = np.array([2, 0, 1, 0, 1, 2])
        >>> partition = shards(per_client=1).split(labels, clients=3)
        >>> sorted(labels[partition.indices(client)].tolist() for client in range(3))
        [[0, 0], [1, 1], [2, 2]]
    """

    per_client: int = 2

    def __post_init__(self) -> None:
        check_whole("partition.per_client", self.per_client)

    def split(
        self, targets: Targets, clients: int, seed: int = 0, owners: IntArray | None = None
    ) -> Partition:
        """Split the training samples; see ``PartitionRecipe.split``."""
        labels = class_labels(targets, "partition shards")
        count = clients * self.per_client
        check_enough(labels.size, clients)
        check_enough(labels.size, count, "shards")
        cuts = np.arange(count + 1) * labels.size // count
        dealt_to = np.random.default_rng(seed).permutation(count) % clients
        owner = np.empty(labels.size, dtype=np.int64)
        owner[np.argsort(labels, kind="stable")] = np.repeat(dealt_to, np.diff(cuts))
        return Partition.from_owners(owner, clients)


@dataclass(frozen=True)
class unequal(PartitionRecipe):
    """Give each client a random part of the samples, of a log-normal size.

    The targets are not used, so that every client has samples of the same distribution.

    Attributes:
        spread: The standard deviation of the logarithm of the sizes, 0 for equal sizes.

    Example:
        >>> unequal(spread=0.0).split(np.zeros(8), clients=2).sizes
        array([4, 4])
    """

    spread: float = 1.0

    def __post_init__(self) -> None:
        check_number("partition.spread", self.spread)

    @property
    def uses_labels(self) -> bool:
        """Whether samples are split by their labels: they are not."""
        return False

    def split(
        self, targets: Targets, clients: int, seed: int = 0, owners: IntArray | None = None
    ) -> Partition:
        """Split the training samples; see ``PartitionRecipe.split``."""
        check_enough(len(targets), clients)
        random = np.random.default_rng(seed)
        logarithms = self.spread * random.standard_normal(clients)
        weights = np.exp(logarithms - logarithms.max())
        sizes = 1 + whole_parts(weights / weights.sum(), len(targets) - clients)
        owner = np.repeat(np.arange(clients), sizes)
        return Partition.from_owners(random.permutation(owner), clients)


@dataclass(frozen=True)
class by_owner(PartitionRecipe):
    """Leave each sample with the client that the data says it comes from.

    Example:
        >>> owners = np.array([1, 0, 1])
        >>> by_owner().split(np.zeros(3), clients=2, owners=owners).indices(1)
        array([0, 2])
    """

    @property
    def uses_labels(self) -> bool:
        """Whether samples are split by their labels: they are not."""
        return False

    def split(
        self, targets: Targets, clients: int, seed: int = 0, owners: IntArray | None = None
    ) -> Partition:
        """Split the training samples; see ``PartitionRecipe.split``. Nothing is drawn."""
        if owners is None:
            raise InvalidInput(
                "partition by_owner needs data that says which client each sample comes from, as "
                "the dataset synthetic does: set Task.train_clients, or use another partition"
            )
        return Partition.from_owners(np.asarray(owners), clients)


@dataclass(frozen=True)
class fixed(PartitionRecipe):
    """Give each client the samples that a list names.

    Attributes:
        indices_per_client: One list for each client with the rows of the training data that it
            holds, counted from 0. A row may be in several lists.

    Example:
        >>> fixed([[0, 2], [1, 2]]).split(np.zeros(3), clients=2).indices(1)
        array([1, 2])
    """

    indices_per_client: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        field = "partition.indices_per_client"
        rows = tuple(
            checked_rows(f"{field}[{client}]", indices)
            for client, indices in enumerate(checked_list(field, self.indices_per_client))
        )
        object.__setattr__(self, "indices_per_client", rows)

    def to_table(self) -> dict[str, Any]:
        """Return the recipe as the ``[partition]`` table of a job."""
        return {"kind": self.kind, "indices_per_client": [[*r] for r in self.indices_per_client]}

    @property
    def uses_labels(self) -> bool:
        """Whether samples are split by their labels: they are not."""
        return False

    def split(
        self, targets: Targets, clients: int, seed: int = 0, owners: IntArray | None = None
    ) -> Partition:
        """Split the training samples; see ``PartitionRecipe.split``. Nothing is drawn."""
        if len(self.indices_per_client) != clients:
            raise InvalidInput(
                f"partition fixed has lists for {len(self.indices_per_client)} clients, "
                f"but there are {clients}"
            )
        partition = Partition.from_lists(self.indices_per_client)
        if partition.order.max() >= len(targets):
            raise InvalidInput(
                f"partition fixed names the row {partition.order.max()}, but the "
                f"{len(targets)} training samples are numbered from 0 to {len(targets) - 1}"
            )
        return partition


_RECIPES: dict[str, type[Any]] = {
    recipe.__name__: recipe for recipe in (wang, dirichlet, shards, unequal, by_owner, fixed)
}


def partition_from_table(table: object) -> PartitionRecipe:
    """Read the ``[partition]`` table of a job.

    Raises:
        InvalidInput: The table names no recipe, lacks a key or has a wrong one.

    Example:
        >>> partition_from_table({"kind": "wang", "case": 2})
        wang(case=2)
    """
    if not isinstance(table, Mapping):
        raise JobError('partition must be a table such as { kind = "dirichlet", alpha = 0.3 }')
    settings = {key: value for key, value in table.items() if value is not None}
    if "kind" not in settings:
        raise JobError(f"partition lacks the key 'kind': use one of {', '.join(_RECIPES)}")
    kind = settings["kind"]
    check_name("partition.kind", kind, _RECIPES)
    known = fields(_RECIPES[kind])
    needed = [field.name for field in known if field.default is MISSING]
    check_keys(f"partition {kind}", settings, ["kind", *(field.name for field in known)], needed)
    del settings["kind"]
    recipe: PartitionRecipe = _RECIPES[kind](**settings)
    return recipe
