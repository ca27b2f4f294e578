"""Quadratic models, random and stored, and the four-point tensors that the package never builds."""

import json
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import finitewidth as fw

CASES = json.loads((Path(__file__).parent / "reference" / "nearly-kernel.json").read_text())["cases"]


class Problem(NamedTuple):
    """Features of all points, the training points first, and labels; inputs are row numbers."""

    phi: np.ndarray
    psi: np.ndarray
    y: np.ndarray

    @property
    def train(self):
        return np.arange(len(self.y))

    @property
    def test(self):
        return np.arange(len(self.y), len(self.phi))

    @property
    def k(self):
        return self.phi @ self.phi.T

    def model(self, epsilon):
        return fw.QuadraticModel(lambda i: self.phi[i], lambda i: self.psi[i], epsilon)

    def zeros(self):
        return jnp.zeros((self.y.shape[1], self.phi.shape[1]))

    def mu(self, epsilon=1.0):
        """The whole meta kernel of all points, by definition."""
        return epsilon * np.einsum("bj,ajk,ck->abc", self.phi, self.psi, self.phi, optimize=True)

    def parts(self, epsilon=1.0):
        """The first five arguments of `nearly_kernel`."""
        n = len(self.y)
        k, mu = self.k, self.mu(epsilon)
        return k[:n, :n], k[n:, :n], mu[:n, :n, :n], mu[n:, :n, :n], mu[:n, n:, :n]


def random_problem(seed=0, train=6, test=5, features=14, outputs=1):
    """Features of unit size in all, and meta features that change them by about epsilon."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(train + test, features)) / np.sqrt(features)
    psi = rng.normal(size=(train + test, features, features)) / np.sqrt(features)
    return Problem(phi, psi + np.swapaxes(psi, 1, 2), rng.normal(size=(train, outputs)))


def stored_problem(case):
    return Problem(np.array(case["phi"]), np.array(case["psi"]), np.array(case["y"]).T)


def step_of(k, edge):
    """The learning rate at a fraction of 1/lambda_max."""
    return float(edge / np.linalg.eigvalsh(k)[-1])


def naive_projectors(k, eta):
    """Z_A, Z_B and X as tensors of four training points, straight from their definition; eta = 0 is flow."""
    n = len(k)
    one = np.eye(n)
    sums = np.einsum("ac,bd->abcd", k, one) + np.einsum("ac,bd->abcd", one, k)
    sums = sums - eta * np.einsum("ac,bd->abcd", k, k)
    X = np.linalg.inv(sums.reshape(n * n, n * n)).reshape(n, n, n, n)
    inverse = np.linalg.inv(k)
    Z_A = np.einsum("ac,bd->abcd", inverse, inverse) - np.einsum("be,aecd->abcd", inverse, X)
    return Z_A, Z_A + eta / 2 * X, X


def slope(epsilons, errors):
    """Fitted power of epsilon."""
    return np.polyfit(np.log2(epsilons), np.log2(errors), 1)[0]
