"""Algorithms 1, 2 and 3 of the paper, line by line: slow, obvious, and without code of the package.

The paper's letters are the names here, and comments give its lines. Where it is misprinted or
silent, this follows docs/paper.md: CoOptFL gets the remaining rounds, its total has K below, a
sample more goes to whom it helps most, the batch that a round is compared by is the last one of the
round before, and the first one of the new round is compared with it.

Random numbers come from outside, so that the package can be fed with the same ones. The model is a
softmax regression without bias: w has a row for each class.
"""

# ruff: noqa: N802, N803, N806  the names are the paper's letters
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def losses(w: Floats, x: Floats, y: Rows) -> Floats:
    """Return the cross-entropy of each sample."""
    z = x @ w.T
    return np.asarray(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y])


def gradients(w: Floats, x: Floats, y: Rows) -> Floats:
    """Return the gradient of each sample's cross-entropy, one row each."""
    z = np.exp(x @ w.T)
    error = z / z.sum(1, keepdims=True)
    error[np.arange(len(y)), y] -= 1
    return np.asarray((error[:, :, None] * x[:, None, :]).reshape(len(y), -1))


@dataclass
class Answer:
    """What a client sends to the server."""

    w_i: Floats
    p_i: float
    D_i: int
    t_ui: float
    seconds: float
    M_i: float
    c_i: float = math.nan
    rho_i: float = math.nan
    beta_i: float = math.nan
    F_i: float = math.nan
    g_i: Floats | None = None


@dataclass
class AlgorithmThree:
    """The procedure at client i.

    Attributes:
        x: The inputs of all samples.
        y: The labels of all samples.
        eta: The learning rate.
        epsilon: The threshold of line 17.
        speed: Samples per second.
        t_ui: Seconds of communication.
        buffer: From a round to the rows in B_i, and to D_i^k.
        draw_batches: From a round, the size of B_i, s_i and tau to the places of tau batches.
        draw_for_variance: From a round and the size of B_i to the places that M_i is measured on.
    """

    x: Floats
    y: Rows
    eta: float
    epsilon: float
    speed: float
    t_ui: float
    buffer: Callable[[int], tuple[Rows, int]]
    draw_batches: Callable[[int, int, int, int], list[Rows]]
    draw_for_variance: Callable[[int, int], Rows]
    t: int = 0
    M_i: float = math.nan
    w_i: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    S_last: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def F(self, w: Floats, S: Rows) -> float:
        return float(losses(w, self.x[S], self.y[S]).mean())

    def g(self, w: Floats, S: Rows) -> Floats:
        return np.asarray(gradients(w, self.x[S], self.y[S]).mean(0).reshape(w.shape))

    def estimate_M_i(self, w: Floats, k: int, B_i: Rows) -> None:
        rows = B_i[self.draw_for_variance(k, B_i.size)]
        each = gradients(w, self.x[rows], self.y[rows])
        self.M_i = float(((each - each.mean(0)) ** 2).sum() / (len(rows) - 1))

    def run_round(self, w: Floats, tau_k: int, s_i: int, k: int) -> Answer:
        t_0, k_0 = self.t, k - 1  # line 5
        c_i = rho_i = beta_i = F_old = math.nan
        g_old = None
        if t_0 > 0:  # lines 6-9
            F_old, g_old = self.F(w, self.S_last), self.g(w, self.S_last)
            c_i = float((g_old**2).sum()) / (2 * F_old)
            apart = float(np.sqrt(((self.w_i - w) ** 2).sum()))
            rho_i = abs(self.F(self.w_i, self.S_last) - F_old) / apart**2
            change = self.g(self.w_i, self.S_last) - g_old
            beta_i = float(np.sqrt((change**2).sum())) / apart
        self.w_i = w.copy()  # line 10
        B_i, D_i = self.buffer(k)  # line 11
        if k == 1:
            self.estimate_M_i(w, k, B_i)  # line 1
        batches = [B_i[S] for S in self.draw_batches(k, B_i.size, min(s_i, B_i.size), tau_k)]
        for S in batches:  # lines 12-14
            self.t += 1
            self.w_i = self.w_i - self.eta * self.g(self.w_i, S)
        t_ci = min(s_i, B_i.size) / self.speed
        p_i = min(s_i, B_i.size) / t_ci  # line 15
        if k_0 > 0 and self.F(w, batches[0]) - F_old > self.epsilon:  # lines 17-18
            self.estimate_M_i(w, k, B_i)
        self.S_last = batches[-1]
        seconds = tau_k * t_ci + self.t_ui
        return Answer(
            self.w_i, p_i, D_i, self.t_ui, seconds, self.M_i, c_i, rho_i, beta_i, F_old, g_old
        )


@dataclass
class Estimates:
    """What the server knows of the loss after line 15 of Algorithm 2."""

    rho: float
    beta: float
    c: float
    delta: float
    F: float


def marginal_bound(e: Estimates, eta: float, tau: int, noise: float) -> float:
    """Return eq. (bound_marginal_approx), term by term; noise is sum_i M_i D_i^2 / (D^2 s_i)."""
    q = 1 - eta * e.c
    h = e.delta / e.beta * ((eta * e.beta + 1) ** tau - 1) - eta * e.delta * tau
    return q**tau * e.F + e.beta * eta**2 * (1 - q**tau) / (2 * (1 - q)) * noise + e.rho * h**2


@dataclass
class AlgorithmTwo:
    """The procedure at the parameter server."""

    clients: list[AlgorithmThree]
    theta: float
    R: float
    K: int
    tau_max: int
    eta: float
    a: float
    b: float
    w: Floats
    s_1: int
    largest_rho: float = math.inf

    def run(self) -> list[tuple[int, list[int], Floats, Estimates | None, list[float]]]:
        """Run all rounds; return of each tau, s, the new w, the estimates and the M_i."""
        theta_c, R_c = self.theta, self.R
        tau, s = 1, [self.s_1] * len(self.clients)
        t = 0
        history = []
        for k in range(1, self.K + 1):
            t_0, t = t, t + tau  # line 6
            answers = [
                client.run_round(self.w, tau, s_i, k)
                for client, s_i in zip(self.clients, s, strict=True)
            ]
            D = sum(answer.D_i for answer in answers)  # line 8
            self.w = np.sum([answer.D_i * answer.w_i for answer in answers], axis=0) / D  # line 9
            theta_c -= max(answer.seconds for answer in answers)
            used = [
                min(s_i, client.buffer(k)[0].size)
                for s_i, client in zip(s, self.clients, strict=True)
            ]
            R_c -= self.a * tau * sum(used) + self.b
            estimates = self.estimate(answers, D) if t_0 > 0 and k < self.K else None  # 10-15
            history.append((tau, used, self.w, estimates, [answer.M_i for answer in answers]))
            if estimates is not None:
                at_hand = [client.buffer(k)[0].size for client in self.clients]
                tau, s = self.co_opt_fl(estimates, answers, self.K - k, R_c, theta_c, at_hand)
        return history

    def estimate(self, answers: list[Answer], D: int) -> Estimates:
        def mean(values: list[float]) -> float:
            return sum(a.D_i * value for a, value in zip(answers, values, strict=True)) / D

        sent = [answer.g_i for answer in answers if answer.g_i is not None]
        g = np.sum([a.D_i * g_i for a, g_i in zip(answers, sent, strict=True)], axis=0) / D
        return Estimates(
            rho=mean([min(answer.rho_i, self.largest_rho) for answer in answers]),
            beta=mean([answer.beta_i for answer in answers]),
            c=mean([answer.c_i for answer in answers]),
            delta=mean([float(np.sqrt(((g_i - g) ** 2).sum())) for g_i in sent]),
            F=mean([answer.F_i for answer in answers]),
        )

    def co_opt_fl(
        self,
        e: Estimates,
        answers: list[Answer],
        K: int,
        R: float,
        theta: float,
        at_hand: list[int],
    ) -> tuple[int, list[int]]:
        """Algorithm 1: every tau, and samples one by one to the client whom the next helps most."""
        D = sum(answer.D_i for answer in answers)
        weights = [answer.M_i * (answer.D_i / D) ** 2 for answer in answers]
        best, choice = math.inf, (0, [0])
        for tau in range(1, self.tau_max + 1):
            s_tot = math.floor((R - K * self.b) / (K * self.a * tau) + 1e-9)
            ceilings = [
                min(math.floor(a.p_i * (theta / K - a.t_ui) / tau + 1e-9), size)
                for a, size in zip(answers, at_hand, strict=True)
            ]
            if s_tot < len(answers) or min(ceilings) < 1:
                continue
            s = [1] * len(answers)
            while sum(s) < s_tot:
                gains = [
                    w / (s_i * (s_i + 1)) if s_i < most else -1.0
                    for w, s_i, most in zip(weights, s, ceilings, strict=True)
                ]
                if max(gains) < 0:
                    break
                s[gains.index(max(gains))] += 1
            noise = sum(w / s_i for w, s_i in zip(weights, s, strict=True))
            value = marginal_bound(e, self.eta, tau, noise)
            if value < best:
                best, choice = value, (tau, s)
        return choice
