"""Steps that the partition recipes share: whole parts, turns and clients without samples."""

import heapq

import numpy as np

from dynamite_fl.records import FloatArray, IntArray


def half_by_label(label: IntArray, count: int, clients: int) -> IntArray:
    """Assign owners as in Wang's case 4, where labels are counted from 0 to count - 1."""
    groups = min(clients, count)
    half = (groups + 1) // 2
    by_label = half + label % max(groups - half, 1)
    in_turn = np.arange(label.size) % half
    return np.where((2 * label < count - 1) | (groups == 1), in_turn, by_label)


def take_turns(owner: IntArray, clients: int, period: int) -> IntArray:
    """Let the clients t, t + period, t + 2 period, ... take turns at the samples of client t."""
    if clients <= period:
        return owner
    sorted_by_owner = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner)
    turn = np.empty_like(owner)
    turn[sorted_by_owner] = np.arange(owner.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    sharing = (clients - 1 - owner) // period + 1
    return np.asarray(owner + period * (turn % sharing))


def whole_parts(shares: FloatArray, total: int) -> IntArray:
    """Return whole numbers that sum to the total, each less than one away from its share."""
    cuts = np.floor(np.cumsum(shares) * total + 0.5)
    cuts[-1] = total  # the rounded sum of the shares may differ from 1
    return np.diff(np.minimum(cuts, total), prepend=0).astype(np.int64)


def fill_empty_clients(owner: IntArray, clients: int, random: np.random.Generator) -> None:
    """Give each client without samples a random one from a client that has the most."""
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
