"""The answers of a round, judged beside each other."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.messages import Reply
from dynamite_fl.client.sketch import sketch
from dynamite_fl.flower.answer_reader import KnownNode
from dynamite_fl.flower.plausible import (
    LARGEST_FIGURE,
    Implausible,
    allowed_samples,
    believed_paths,
    bounded,
    is_absurd,
    is_too_far,
)
from dynamite_fl.flower.round_outcome import Answer
from dynamite_fl.records import FloatArray
from dynamite_fl.training.engine import RoundOrder

Answers = dict[int, Answer]

_LARGEST_OF_TRIALS = 5.0  # the largest loss, steepness and curvature, as multiples of the median


def judge(
    order: RoundOrder,
    answers: Answers,
    nodes: Mapping[int, KnownNode],
    trained: int,
    *,
    is_private: bool = False,
) -> tuple[Answers, dict[int, str]]:
    """Compare the answers of a round with each other.

    Args:
        order: The order of the round.
        answers: The answers, by client.
        nodes: What is known of the nodes that answered, by client.
        trained: The number of trained weights of the model.
        is_private: Whether only figures are compared that do not depend on the nodes' data, such as
            times. With differential privacy, nobody's data may decide on another's update.

    Returns:
        The plausible answers, their figures within the limits of ``plausible.py``; and what is
        implausible in each of the others.
    """
    implausible: dict[int, str] = {}
    believed: Answers = {}
    claims = {client: float(answer.reply.samples) for client, answer in answers.items()}
    for client, answer in answers.items():
        node = nodes[client]
        others = [count for other, count in claims.items() if other != client]
        try:
            samples = allowed_samples(
                answer.reply.samples, node.samples, streams=node.streams, others=others
            )
        except Implausible as error:
            implausible[client] = str(error)
            continue
        believed[client] = _with_reply(answer, samples=samples)
    for find in () if is_private else (_far_models, _absurd_paths, _absurd_variances):
        found = find(order, believed, trained)
        implausible |= found
        believed = {client: a for client, a in believed.items() if client not in found}
    if not is_private:
        believed = _with_believed_paths(order, believed, trained)
    return _within_limits(believed), implausible


def _far_models(order: RoundOrder, answers: Answers, trained: int) -> dict[int, str]:
    """Return the clients whose local models are implausibly far from the global model."""
    start = order.weights[:trained]
    norms = np.array([_norm(a.reply.weights[:trained] - start) for a in answers.values()])
    for place, answer in enumerate(answers.values()):
        if not torch.isfinite(answer.reply.weights).all():
            norms[place] = np.nan  # the loop refuses and counts it
    sizes = _batch_sizes(order)
    is_far = is_too_far(norms, np.array([sizes[client] for client in answers]))
    return {
        client: f"its model moved by {norm:.3g}, much further than those of the others"
        for client, norm, far in zip(answers, norms, is_far, strict=True)
        if far
    }


def _absurd_paths(order: RoundOrder, answers: Answers, trained: int) -> dict[int, str]:
    """Return the clients whose path has nothing to do with how their model moved."""
    clients, first, whole = _paths(order, answers, trained)
    _, is_path_absurd = believed_paths(first, whole)
    reason = "the first half of its path does not fit to the movement of its model"
    return {client: reason for client, bad in zip(clients, is_path_absurd, strict=True) if bad}


def _absurd_variances(_: RoundOrder, answers: Answers, __: int) -> dict[int, str]:
    """Return the clients whose gradient variance is beyond all others."""
    found: dict[int, str] = {}
    for read in (_path_variance, _probe_variance):
        values = _column(answers, read)
        for client, value, bad in zip(answers, values, is_absurd(values), strict=True):
            if bad:
                found[client] = f"it says that its gradient variance is {value:.3g}"
    return found


def _within_limits(answers: Answers) -> Answers:
    """Return the answers with figures that no single node has moved far."""
    per_sample = _column(answers, lambda a: a.work.computed / a.work.step_seconds)
    ratio = bounded(per_sample, 100 * LARGEST_FIGURE) / per_sample
    path_variance = bounded(_column(answers, _path_variance))
    variance = bounded(_column(answers, _probe_variance))
    figures = _bounded_figures(answers)
    gradients = _gradient_scales(answers)
    trials = _bounded_trials(answers)
    limited: Answers = {}
    for place, (client, answer) in enumerate(answers.items()):
        reply, path = answer.reply, answer.reply.path
        if path is not None and not np.isnan(path_variance[place]):
            path = replace(path, gradient_variance=float(path_variance[place]))
        if reply.gradient_variance is not None:
            reply = replace(reply, gradient_variance=float(variance[place]))
        if reply.figures is not None:
            mine = {name: float(column[place]) for name, column in figures.items()}
            reply = replace(reply, figures=replace(reply.figures, **mine))
        if reply.gradient is not None and gradients[place] < 1:
            reply = replace(reply, gradient=reply.gradient * gradients[place])
        for name, column in trials.items():
            reply = replace(reply, **{name: float(column[place])})  # type: ignore[arg-type]
        work = replace(answer.work, step_seconds=answer.work.step_seconds / ratio[place])
        limited[client] = replace(answer, reply=replace(reply, path=path), work=work)
    return limited


def _bounded_trials(answers: Answers) -> dict[str, FloatArray]:
    """Return what trials of learning rates showed, as columns that no single node has moved far.

    Curvatures are bounded, which are the inverse of stable rates, because they are averaged.
    """
    curvature = _column(answers, lambda answer: 1 / answer.reply.stable_rate)
    return {
        "stable_rate": 1 / bounded(curvature, _LARGEST_OF_TRIALS),
        "steepness": bounded(_column(answers, lambda a: a.reply.steepness), _LARGEST_OF_TRIALS),
        "first_loss": bounded(_column(answers, lambda a: a.reply.first_loss), _LARGEST_OF_TRIALS),
    }


def _with_believed_paths(order: RoundOrder, answers: Answers, trained: int) -> Answers:
    clients, first, whole = _paths(order, answers, trained)
    believed, _ = believed_paths(first, whole)
    changed = dict(answers)
    for client, old, new in zip(clients, first, believed, strict=True):
        path = answers[client].reply.path
        if path is None or old is new or (old == new).all():
            continue
        half = torch.from_numpy(new).to(path.first_half.dtype)
        changed[client] = _with_reply(answers[client], path=replace(path, first_half=half))
    return changed


def _paths(
    order: RoundOrder, answers: Answers, trained: int
) -> tuple[list[int], FloatArray, FloatArray]:
    """Return the clients that sent a path, sketches of its first half and of the whole path."""
    clients, first, whole = [], [], []
    for client, answer in answers.items():
        reply = answer.reply
        if reply.path is not None and torch.isfinite(reply.weights).all():
            clients.append(client)
            first.append(reply.path.first_half.double().numpy())
            moved = order.weights[:trained] - reply.weights[:trained]
            whole.append(sketch(moved).double().numpy())
    if not clients:
        return [], np.zeros((0, 1)), np.zeros((0, 1))
    return clients, np.stack(first), np.stack(whole)


def _bounded_figures(answers: Answers) -> dict[str, FloatArray]:
    """Return the figures of a probe as columns, each within its limits."""
    names = {name for a in answers.values() if a.reply.figures for name in vars(a.reply.figures)}
    rows = [a.reply.figures for a in answers.values()]
    return {
        name: bounded(np.array([getattr(figures, name, np.nan) for figures in rows]))
        for name in names
    }


def _gradient_scales(answers: Answers) -> FloatArray:
    """Return the factor by which each client's gradient is shortened, at most 1."""
    norms = _column(
        answers, lambda a: np.nan if a.reply.gradient is None else _norm(a.reply.gradient)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(norms > 0, bounded(norms) / norms, 1.0)


def _column(answers: Answers, read: Callable[[Answer], float]) -> FloatArray:
    return np.array([read(answer) for answer in answers.values()], dtype=np.float64)


def _path_variance(answer: Answer) -> float:
    path = answer.reply.path
    return np.nan if path is None else path.gradient_variance


def _probe_variance(answer: Answer) -> float:
    variance = answer.reply.gradient_variance
    return np.nan if variance is None else variance


def _batch_sizes(order: RoundOrder) -> dict[int, int]:
    pairs = zip(order.cohort, order.plan.batch_sizes, strict=True)
    return {int(client): int(size) for client, size in pairs}


def _with_reply(answer: Answer, **changes: object) -> Answer:
    reply: Reply = replace(answer.reply, **changes)  # type: ignore[arg-type]
    return replace(answer, reply=reply)


def _norm(vector: Tensor) -> float:
    return float(torch.linalg.vector_norm(vector, dtype=torch.float64))
