"""Who holds which samples: from labels to lists of indices, without a copy of any data."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamite_fl.records import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Partition:
    """For each client, where its samples are in the training data.

    Attributes:
        order: Indices of samples; each client's are one piece of it.
        first: Where each client's piece begins, (n,).
        sizes: How long it is, (n,), at least 1.

    Example:
        >>> everyone = np.arange(4)
        >>> shared = Partition(everyone, first=np.array([0, 0]), sizes=np.array([4, 4]))
        >>> len(shared), shared.indices(1)
        (2, array([0, 1, 2, 3]))
    """

    order: IntArray
    first: IntArray
    sizes: IntArray

    def __post_init__(self) -> None:
        if self.first.shape != self.sizes.shape:
            raise ValueError("Partition.first and Partition.sizes must be of one length")
        empty = np.flatnonzero(self.sizes < 1)
        if empty.size:
            raise ValueError(
                f"client {empty[0]} would hold no sample, as would {empty.size - 1} others: "
                "use fewer clients, more samples or another partition"
            )
        if (self.first < 0).any() or (self.first + self.sizes > self.order.size).any():
            raise ValueError("Partition.first and Partition.sizes point outside Partition.order")
        for column in (self.order, self.first, self.sizes):
            column.setflags(write=False)

    def __len__(self) -> int:
        return self.sizes.size

    def indices(self, client: int) -> IntArray:
        """The client's samples; part of ``order``, not a copy."""
        first = self.first[client]
        return self.order[first : first + self.sizes[client]]


def by_owner(owner: IntArray, clients: int | None = None) -> Partition:
    """The partition in which sample i belongs to client ``owner[i]``.

    Args:
        owner: From 0, shape (D,).
        clients: How many there are; by default those that appear.

    Example:
        >>> by_owner(np.array([1, 0, 1])).indices(1)
        array([0, 2])
    """
    sizes = np.bincount(owner, minlength=clients or 0)
    if clients is not None and sizes.size > clients:
        raise ValueError(f"a sample belongs to client {sizes.size - 1}, but there are {clients}")
    order = np.argsort(owner, kind="stable")
    return Partition(order, first=np.cumsum(sizes) - sizes, sizes=sizes)


def wang(labels: IntArray, clients: int, case: int) -> Partition:
    """The four cases of Wang et al. (2019), as their published code has them.

    Case 1: sample i goes to client i mod n. Case 2: by label, label mod n. Case 3: every
    client has everything. Case 4: the lower half of the labels as in case 1 over half of the
    clients, the upper half by label over the others. Where clients outnumber labels, those
    that are equal modulo the number of labels share in turn what one would get.

    Example:
        >>> labels = np.array([0, 1, 2, 0, 1, 2])
        >>> wang(labels, clients=3, case=2).indices(2)
        array([2, 5])
        >>> wang(labels, clients=6, case=2).indices(5)
        array([5])
    """
    if case == 3:
        _require_samples(labels, min(clients, 1))
        every = np.arange(labels.size)
        sizes = np.full(clients, labels.size)
        return Partition(every, first=np.zeros(clients, dtype=np.int64), sizes=sizes)
    _require_samples(labels, clients)
    position = np.arange(labels.size)
    label = labels - labels.min()
    count = int(label.max()) + 1
    if case == 1:
        return by_owner(position % clients, clients)
    if case == 2:
        return by_owner(_in_turn(label % clients, clients, count), clients)
    if case == 4:
        groups = min(clients, count)
        half = (groups + 1) // 2
        upper = half + label % max(groups - half, 1)
        target = np.where((2 * label < count - 1) | (groups == 1), position % half, upper)
        return by_owner(_in_turn(target, clients, count), clients)
    raise ValueError(f"case is {case!r}: Wang's cases are 1, 2, 3 and 4")


def dirichlet(labels: IntArray, clients: int, alpha: float, seed: int = 0) -> Partition:
    """Each class split among the clients by proportions drawn from Dirichlet(alpha).

    The smaller alpha, the fewer classes a client has (Hsu et al. 2019). A client that would
    get nothing gets one sample of a client that has most.

    Example:
        >>> labels = np.repeat(np.arange(10), 100)
        >>> partition = dirichlet(labels, clients=20, alpha=0.3, seed=1)
        >>> partition.sizes.sum(), partition.sizes.min() >= 1
        (np.int64(1000), np.True_)
    """
    _require_samples(labels, clients)
    _require_positive("alpha", alpha)
    random = np.random.default_rng(seed)
    owner = np.empty(labels.size, dtype=np.int64)
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        share = random.dirichlet(np.full(clients, alpha))
        owner[members] = np.repeat(np.arange(clients), _whole_parts(share, members.size))
    _feed_empty(owner, clients, random)
    return by_owner(owner, clients)


def shards(labels: IntArray, clients: int, per_client: int = 2, seed: int = 0) -> Partition:
    """Samples sorted by label, cut into equal shards, ``per_client`` of them dealt to each.

    McMahan et al. (2017) use two, so that most clients have two classes.

    Example:
        >>> labels = np.array([2, 0, 1, 0, 1, 2])
        >>> partition = shards(labels, clients=3, per_client=1)
        >>> sorted(labels[partition.indices(client)].tolist() for client in range(3))
        [[0, 0], [1, 1], [2, 2]]
    """
    if per_client < 1:
        raise ValueError(f"per_client is {per_client}: it must be 1 or more")
    count = clients * per_client
    _require_samples(labels, count, "shards")
    _require_samples(labels, clients)
    cuts = np.arange(count + 1) * labels.size // count
    dealt_to = np.random.default_rng(seed).permutation(count) % clients
    owner = np.empty(labels.size, dtype=np.int64)
    owner[np.argsort(labels, kind="stable")] = np.repeat(dealt_to, np.diff(cuts))
    return by_owner(owner, clients)


def unequal(labels: IntArray, clients: int, spread: float = 1.0, seed: int = 0) -> Partition:
    """Random samples, log-normal numbers of them: ``spread`` is the deviation of the logarithm.

    Example:
        >>> unequal(np.zeros(8, dtype=np.int64), clients=2, spread=0.0).sizes
        array([4, 4])
    """
    _require_samples(labels, clients)
    if not 0 <= spread < np.inf:
        raise ValueError(f"spread is {spread}: it must be a finite number, 0 or more")
    random = np.random.default_rng(seed)
    logarithm = spread * random.standard_normal(clients)
    weight = np.exp(logarithm - logarithm.max())
    sizes = 1 + _whole_parts(weight / weight.sum(), labels.size - clients)
    owner = np.repeat(np.arange(clients), sizes)
    return by_owner(random.permutation(owner), clients)


def _in_turn(target: IntArray, clients: int, period: int) -> IntArray:
    """Share what is meant for client t among t, t + period, ... in turn."""
    if clients <= period:
        return target
    by_target = np.argsort(target, kind="stable")
    sizes = np.bincount(target)
    turn = np.empty_like(target)
    turn[by_target] = np.arange(target.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    sharing = (clients - 1 - target) // period + 1
    return np.asarray(target + period * (turn % sharing))


def _whole_parts(share: FloatArray, total: int) -> IntArray:
    """Whole numbers that sum to the total, each within one of its share of it."""
    cuts = np.floor(np.cumsum(share) * total + 0.5)
    cuts[-1] = total  # whatever the sum of the shares is rounded to
    return np.diff(np.minimum(cuts, total), prepend=0).astype(np.int64)


def _feed_empty(owner: IntArray, clients: int, random: np.random.Generator) -> None:
    """Give each client without samples one, chosen at random, of a client that has most."""
    sizes = np.bincount(owner, minlength=clients)
    empty = np.flatnonzero(sizes == 0)
    if not empty.size:
        return
    shuffled = random.permutation(owner.size)
    order = shuffled[np.argsort(owner[shuffled], kind="stable")]
    ends = np.cumsum(sizes)
    richest = [(-int(size), client) for client, size in enumerate(sizes) if size > 1]
    heapq.heapify(richest)
    for client in empty:
        size, donor = richest[0]
        owner[order[ends[donor] - sizes[donor] - size - 1]] = client
        heapq.heapreplace(richest, (size + 1, donor))


def _require_samples(labels: NDArray[np.integer], needed: int, what: str = "clients") -> None:
    if needed < 1:
        raise ValueError(f"the number of {what} is {needed}: it must be 1 or more")
    if labels.size < needed:
        raise ValueError(
            f"{labels.size} samples are not enough for {needed} {what}: each needs at least one "
            "(only case 3 of Wang shares samples among clients)"
        )


def _require_positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise ValueError(f"{name} is {value}: it must be a finite number above 0")
