"""Weights of training that stops, with a ridge: against real descent of weights, and a second derivation."""

import numpy as np
import pytest

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.prediction.methods.first_order.dense.covariance import dense_covariance
from finitewidth.prediction.methods.first_order.dense.mean import dense_mean
from finitewidth.prediction.methods.first_order.source_weights import SourceWeights, source_weights
from finitewidth.prediction.methods.first_order.stopped_weights import stopped_weights
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from tolerances import assert_close
from truncated_dynamics import kernels, random_tensors

EIGENVALUES = np.array([0.2, 0.7, 1.3])
TRAIN, LABELS, EXTRA = 2, 3, 4


class TestDescentOfWeights:
    r"""A model $z = v\phi + \frac12B[\phi,\phi]+\frac16C[\phi,\phi,\phi]$ that is trained step by step."""

    eta, steps, ridge = 0.3, 7, 0.4

    @pytest.fixture
    def model(self):
        rng = np.random.default_rng(3)
        v = rng.normal(size=(LABELS, LABELS)) / 2
        y = rng.normal(size=(TRAIN, 1))
        kernel = v @ v.T
        modes = TrainingModes.of(kernel, kernel, y, GradientDescent(self.eta, self.steps), ridge=self.ridge)
        return rng, v, modes

    def slope(self, v, B, C, y, power):
        """Derivative in s at zero of the trained outputs, for s^power B and s C, by a complex step."""
        h = 1e-20
        B, C = (1j * h) ** power * B, 1j * h * C
        phi = np.zeros(v.shape[1], complex)
        gradient = lambda: v + B @ phi + (C @ phi) @ phi / 2
        outputs = lambda: v @ phi + (B @ phi) @ phi / 2 + ((C @ phi) @ phi) @ phi / 6
        for _ in range(self.steps):
            push = (y - outputs()[:TRAIN]) @ gradient()[:TRAIN]
            phi = phi + self.eta * (push - self.ridge * phi)
        return outputs().imag / h

    def test_the_kernel_moves(self, model):
        rng, v, modes = model
        B = rng.normal(size=(LABELS,) * 3)
        B = (B + B.swapaxes(1, 2)) / 2
        y = (modes.U @ modes.Y)[:, 0]
        slope = self.slope(v, B, np.zeros((LABELS,) * 4), y, power=1)
        dH = np.einsum("Dij,ai,bj->Dab", B, v, v)
        w, Y = modes.weights(), modes.Y[:, 0]
        legs = lambda tensor: np.einsum("...ab,ak,bl,k,l->...kl", tensor, modes.U, modes.U, Y, Y)
        source = np.einsum("Dkl,zkl->zD", legs(dH[:, :TRAIN, :TRAIN]), w.dH_Dab)
        source += np.einsum("Dkl,zkl->zD", legs(dH[:TRAIN, :, :TRAIN].swapaxes(0, 1)), w.dH_aDb)
        assert_close(modes.delivered(source), slope)

    def test_the_kernel_moves_twice(self, model):
        """The curvature of B points out of the span of v, so that dH vanishes and J does not."""
        rng, v, modes = model
        wide = np.concatenate([v, np.zeros((LABELS, EXTRA))], axis=1)
        outwards = rng.normal(size=(LABELS, LABELS, EXTRA))
        B = np.zeros((LABELS, LABELS + EXTRA, LABELS + EXTRA))
        B[:, :LABELS, LABELS:], B[:, LABELS:, :LABELS] = outwards, outwards.swapaxes(1, 2)
        c = rng.normal(size=(LABELS,) * 4)
        c = sum(
            c.transpose(0, *p) for p in ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1))
        )
        C = np.zeros((LABELS, *(LABELS + EXTRA,) * 3))
        C[:, :LABELS, :LABELS, :LABELS] = c
        y = (modes.U @ modes.Y)[:, 0]
        slope = self.slope(wide, B, C, y, power=0.5)
        tensors = {
            "I": np.einsum("Dijk,ai,bj,ck->Dabc", c, v, v, v),
            "J": np.einsum("aix,bjx,ci,dj->abcd", outwards, outwards, v, v),
        }
        legs = np.einsum("ak,k->ak", modes.U, modes.Y[:, 0])
        source = 0.0
        for (block, order), weight in modes.weights().second_change.items():
            part = tensors[block][tuple(slice(None) if o == "D" else slice(TRAIN) for o in order)]
            source = source + np.einsum(f"{order},ak,bl,cm,zklm->zD", part, legs, legs, legs, weight)
        assert_close(modes.delivered(source), slope)


ALGORITHMS = [(0.7, 3), (1.4, 17), (1.4, 40), (None, 3.0)]


@pytest.mark.parametrize(("train", "test", "out"), [(3, 1, 1), (2, 2, 2)])
@pytest.mark.parametrize(("fraction", "end"), ALGORITHMS)
def test_without_a_ridge_the_chains_say_the_same(rng, monkeypatch, train, test, out, fraction, end):
    """Two derivations: sums over nested times, and the growth of what each arrangement has been given."""
    tensors = random_tensors(rng, train + test)
    K, Theta = kernels(rng, train + test)
    y = rng.normal(size=(train, out))
    largest = float(np.linalg.eigvalsh(Theta[:train, :train])[-1])
    algorithm = GradientFlow(end) if fraction is None else GradientDescent(fraction / largest, end)
    modes = TrainingModes.of(K, Theta, y, algorithm)
    expected = dense_mean(tensors, modes), dense_covariance(tensors, modes)
    monkeypatch.setattr(
        "finitewidth.prediction.methods.first_order.training_modes.source_weights",
        lambda t, algorithm, ridge: SourceWeights(*stopped_weights(t, ridge, algorithm.clock())),
    )
    for part, other in zip(dense_mean(tensors, modes), expected[0], strict=True):
        assert_close(part, other)
    assert_close(dense_covariance(tensors, modes), expected[1])


@pytest.mark.parametrize(
    "long", [GradientDescent(0.5, 4000), GradientDescent(0.9, 2000), GradientFlow(800.0)]
)
def test_long_training_reaches_the_stationary_point(long):
    ridge = 0.1
    t = EIGENVALUES + ridge
    weights, end = source_weights(t, long, ridge), source_weights(t, type(long)(), ridge)
    for name, limit in end._asdict().items():
        if limit is not None:
            weight = getattr(weights, name)
            assert_close(weight[0], limit[0])
            later = limit / t.reshape(-1, *[1] * (limit.ndim - 1))
            assert_close(long.clock().rate * weight[1:], later)


def test_small_steps_approach_the_flow():
    steps, ridge = 2**14, 0.3
    descent = source_weights(EIGENVALUES + ridge, GradientDescent(3.0 / steps, steps), ridge)
    flow = source_weights(EIGENVALUES + ridge, GradientFlow(3.0), ridge)
    for name, limit in flow._asdict().items():
        if limit is not None:
            assert_close(getattr(descent, name)[0], limit[0], 10 / steps)


def test_equal_eigenvalues_have_equal_weights():
    ridge, clock = 0.3, GradientDescent(0.4, 5).clock()
    t = np.array([1.3, 0.2, 0.2]) + ridge
    pairs = zip(stopped_weights(t, ridge, clock), stopped_weights(t[:2], ridge, clock), strict=True)
    for weight, distinct in pairs:
        corner = tuple(slice(n) for n in distinct.shape)
        assert_close(weight[corner], distinct)
        assert_close(np.take(np.take(weight, 3, axis=0), 2, axis=-1), np.take(weight[2], 1, axis=-1))
