"""Separable classes: random ones, their hard margin by trying every set of points, and other people's
solvers."""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.optimize import linprog

_MOST_DRAWS = 5000


class Classes(NamedTuple):
    """Points and labels of -1 and 1."""

    x: Float[np.ndarray, "train features"]
    y: Float[np.ndarray, " train"]

    @property
    def signed(self) -> Float[np.ndarray, "train features"]:
        """Rows y_i x_i."""
        return self.x * self.y[:, None]


class Margin(NamedTuple):
    """The shortest weights with all margins at least one, and the multiplier of each point."""

    weights: Float[np.ndarray, " features"]
    multipliers: Float[np.ndarray, " train"]

    def rate(self, classes: Classes) -> float:
        """The slowest rate in log t: the least of 1, the curvature on the support, and the gap to the next
        margin."""
        held = self.multipliers > 0
        rows = np.sqrt(self.multipliers[held])[:, None] * classes.signed[held]
        others = (classes.signed @ self.weights)[~held]
        return min(
            1.0, float(np.linalg.svd(rows, compute_uv=False)[-1] ** 2), float(others.min(initial=np.inf) - 1)
        )


def draw(rng: np.random.Generator, points: int, features: int, gap: float = 0.4) -> Classes:
    """Gaussian points, moved apart along a random direction."""
    direction = rng.normal(size=features)
    direction /= np.linalg.norm(direction)
    x = rng.normal(size=(points, features))
    y = np.where(x @ direction > 0, 1.0, -1.0)
    return Classes(x + gap * y[:, None] * direction, y)


def draw_with_rate(
    rng: np.random.Generator, points: int, features: int, least: float, spanning: bool = False
) -> Classes:
    """The first draw of two classes whose slowest rate is at least so large, and whose support is a basis."""
    for _ in range(_MOST_DRAWS):
        classes = draw(rng, points, features)
        if abs(classes.y.sum()) < points:
            found = margin_by_enumeration(classes)
            basis = np.count_nonzero(found.multipliers) == features
            if (basis or not spanning) and found.rate(classes) >= least:
                return classes
    raise ValueError(f"no draw of {_MOST_DRAWS} has a rate of {least}.")


def margin_by_enumeration(classes: Classes) -> Margin:
    """Equal margins on each set of at most as many points as features; the shortest weights that hold for
    all."""
    rows, (n, d) = classes.signed, classes.x.shape
    best = None
    for count in range(1, d + 1):
        sets = np.array(list(itertools.combinations(range(n), count)))
        chosen = rows[sets]
        a = np.linalg.solve(chosen @ np.swapaxes(chosen, 1, 2), np.ones((len(sets), count, 1)))[..., 0]
        weights = np.einsum("sc,scd->sd", a, chosen)
        holds = (a > 0).all(axis=1) & ((weights @ rows.T) > 1 - 1e-9).all(axis=1)
        for place in np.flatnonzero(holds):
            if best is None or weights[place] @ weights[place] < best.weights @ best.weights:
                multipliers = np.zeros(n)
                multipliers[sets[place]] = a[place]
                best = Margin(weights[place], multipliers)
    if best is None:
        raise ValueError("the classes are not separable.")
    return best


def margin_by_cones(classes: Classes) -> Margin:
    """By CVXPY with Clarabel."""
    import cvxpy as cp

    w = cp.Variable(classes.x.shape[1])
    apart = classes.signed @ w >= 1
    cp.Problem(cp.Minimize(cp.sum_squares(w) / 2), [apart]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    return Margin(np.asarray(w.value), np.asarray(apart.dual_value))


def margin_by_scikit_learn(classes: Classes) -> Margin:
    """By a support vector machine on the points and their mirror images, which has no intercept."""
    from sklearn.svm import SVC

    n, rows = len(classes.y), classes.signed
    machine = SVC(C=1e10, kernel="linear", tol=1e-10).fit(
        np.concatenate([rows, -rows]), np.repeat([1, -1], n)
    )
    duals = np.zeros(2 * n)
    duals[machine.support_] = np.abs(machine.dual_coef_[0])
    return Margin(np.asarray(machine.coef_[0]), duals[:n] + duals[n:])


def sparse_margin(classes: Classes) -> Margin:
    """The weights with margins at least one and the least sum of sizes, and the multiplier of each point."""
    rows, d = classes.signed, classes.x.shape[1]
    found = linprog(
        np.ones(2 * d),
        A_ub=-np.concatenate([rows, -rows], axis=1),
        b_ub=-np.ones(len(rows)),
        method="highs-ds",
    )
    return Margin(np.subtract(*np.split(found.x, 2)), -found.ineqlin.marginals)


def draw_with_sparse_margin(
    rng: np.random.Generator, points: int, features: int, slack: float, cosine: float, share: float
) -> Classes:
    """The first draw whose sparse and hard margins point apart, and whose sparse one is reached before long.

    Unused features need a slack, and each point that holds the margin a share of all multipliers: one with
    a small multiplier a is felt only from log t of about e^(1/a) on.
    """
    for _ in range(_MOST_DRAWS):
        classes = draw(rng, points, features)
        if abs(classes.y.sum()) == points:
            continue
        b, a = sparse_margin(classes)
        w = margin_by_enumeration(classes).weights
        unused, held = b == 0, a > 0
        between = b @ w / np.linalg.norm(b) / np.linalg.norm(w)
        slopes = np.abs(a @ classes.signed)[unused]
        if (
            unused.any()
            and slopes.max() < 1 - slack
            and between < cosine
            and a[held].min() >= share * a.sum()
        ):
            return classes
    raise ValueError(f"no draw of {_MOST_DRAWS} has a slack of {slack} and a cosine below {cosine}.")


class Squares(NamedTuple):
    """Weights u^2 - v^2 of a linear classifier under gradient flow, at each time, and their pull."""

    beta: Float[np.ndarray, "times features"]
    alignment: Float[np.ndarray, " times"]


def squares_flow(classes: Classes, start: float, log_times: np.ndarray) -> Squares:
    """Gradient flow in u and v on the mean exponential loss, in log t, with the cosine of minus gradient
    and weights."""
    rows, (n, d) = classes.signed, classes.x.shape

    def pull(tau: float, state: np.ndarray) -> np.ndarray:
        beta = np.exp(2 * state[:d]) - np.exp(2 * state[d:])
        return np.exp(np.minimum(tau - rows @ beta, 700.0)) @ rows / n

    def rates(tau: float, state: np.ndarray) -> np.ndarray:
        g = 2 * pull(tau, state)
        return np.append(g, -g)

    def slopes(tau: float, state: np.ndarray) -> np.ndarray:
        beta = np.append(np.exp(2 * state[:d]), -np.exp(2 * state[d:]))
        both = np.concatenate([rows, rows], axis=1)
        weight = np.exp(np.minimum(tau - both @ beta, 700.0)) / n
        turn = -4 * (rows.T * weight) @ (both * np.abs(beta) * np.repeat([1, -1], d))
        return np.concatenate([turn, -turn])

    begin = np.log(start) * np.ones(2 * d)
    # Trial steps may overflow; the solver then takes shorter ones.
    with np.errstate(all="ignore"):
        run = solve_ivp(
            rates, (-20.0, log_times[-1]), begin, "Radau", log_times, rtol=1e-8, atol=1e-10, jac=slopes
        )
    states = run.y.T
    weights = np.exp(states)
    g = np.array([pull(t, s) for t, s in zip(run.t, states, strict=True)])
    down = np.concatenate([g, -g], axis=1) * weights
    cosines = np.sum(down * weights, axis=1) / np.linalg.norm(down, axis=1) / np.linalg.norm(weights, axis=1)
    return Squares(weights[:, :d] ** 2 - weights[:, d:] ** 2, cosines)
