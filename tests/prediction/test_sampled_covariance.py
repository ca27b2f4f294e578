"""The covariance by sampled neurons: every contraction against dense tensors, and exact identities."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.methods.first_order.dense.covariance import (
    composite,
    correlation,
    dense_covariance,
    kernel_noise,
)
from finitewidth.prediction.methods.first_order.sampled import kinds as k
from finitewidth.prediction.methods.first_order.sampled.covariance import unsampled_covariance
from finitewidth.prediction.methods.first_order.sampled.neuron import Neuron, drawn, layer_sources
from finitewidth.prediction.methods.first_order.sampled.stratified import Sampling
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.statistics.first_order.corrections import corrections
from finitewidth.statistics.first_order.hidden_layers import layer_kernels
from tolerances import assert_close

QUADRATURE = 1e-6
Z_LIMIT = 4.0
# A wrong factor in a part must show: its largest entry in standard errors.
RESOLVED = 10.0

SAMPLES = 16_384
CASES = [
    ("gelu", (64,), 1, fw.GradientFlow(4.0), 0.0),
    ("tanh", (40, 60), 2, fw.GradientDescent(steps=6), 0.0),
    ("gelu", (40, 80, 60), 1, fw.GradientDescent(0.2), 0.0),
    ("gelu", (60, 40), 2, fw.GradientDescent(), 0.4),
    ("tanh", (60, 40), 2, fw.GradientFlow(1.5), 0.4),
    ("tanh", (64,), 1, fw.GradientDescent(0.3, 4), 0.5),
]


def problem(activation, hidden, out, algorithm, x=None, y=None, ridge=0.0):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(6, 3)) if x is None else x
    y = rng.normal(size=(4, out)) if y is None else y
    net = fw.MLP(hidden, activation, 0.2, 1.3, [0.3] + [0.1] * len(hidden), [0.8] + [1.0] * len(hidden), out)
    kernels = layer_kernels(net, x)
    modes = TrainingModes.of(kernels.K, kernels.Theta, y, algorithm, ridge)
    return net, Sampling.of(kernels, modes, jnp.float64), modes, x


def only(tensors, *letters):
    """The same tensors, all but a few of them zero."""
    keep = lambda owner, name: getattr(owner, name) if name in letters else 0 * getattr(owner, name)
    differentials = tensors.differentials._replace(**{n: keep(tensors.differentials, n) for n in "PQRSTU"})
    plain = {name: keep(tensors, name) for name in ("G1", "V", "H1", "D", "F", "A", "B")}
    return dataclasses.replace(tensors, **plain, differentials=differentials)


def dense_parts(tensors, modes):
    """A function that contracts some of the tensors alone, averaged over outputs, at the test points.

    Without second moments of the residuals the dNTK keeps only the part in which u pairs with one of them.
    """
    out, train = modes.Y.shape[1], modes.train
    grown, _ = composite(tensors, modes)
    test = len(modes.K) - train

    def part(function, *letters, moments=1.0):
        _, whole = composite(only(tensors, *letters), modes)
        w = grown.weights()
        bar = np.eye(len(grown.K))
        bar[:, : grown.train] -= grown.smoother(w)
        W = moments * (grown.Y @ grown.Y.T + grown.Kt)
        full = function(whole, grown, w, W, *([bar] if function is correlation else []))
        rows = full[grown.train :, grown.train :].reshape(out, test, out, test)
        own = np.einsum("oaob->ab", rows) / out
        return own + own.T if function is correlation else own

    return part


# A contraction alone: kinds, what is set to zero in the sampled one, and the same part of the dense formulas.
TERMS = {
    "A squared": (k.SquaredVariance(), None, lambda part: part(kernel_noise, "A")),
    "B squared": (k.SquaredCross(), None, lambda part: part(kernel_noise, "B")),
    "A": (k.StartWithFluctuations(k.KernelVariance()), None, lambda part: part(correlation, "A")),
    "B": (k.StartWithFluctuations(k.KernelCross()), None, lambda part: part(correlation, "B")),
    "D": (k.StartWithKernel(), "probes", lambda part: part(correlation, "D")),
    "F": (k.StartWithKernel(), "fluctuation", lambda part: part(correlation, "F")),
    "dNTK with residual": (
        k.StartWithFirstChange(),
        "bar",
        lambda part: part(correlation, "P", "Q", moments=0.0),
    ),
    "dNTK with start": (
        k.StartWithFirstChange(),
        "left",
        lambda part: part(correlation, "P", "Q") - part(correlation, "P", "Q", moments=0.0),
    ),
    "ddNTK": (k.StartWithSecondChange(), None, lambda part: part(correlation, "R", "S", "T", "U")),
}


def isolated(source, start, zero):
    """The same source and start with one of their parts set to zero."""
    nothing = lambda part: jax.tree.map(jnp.zeros_like, part)
    if zero == "probes":
        source = eqx.tree_at(lambda s: s.Lambda, source, nothing(source.Lambda))
    elif zero == "fluctuation":
        edges = source.edges
        edges = edges._replace(kernel=nothing(edges.kernel), kernel_mean=nothing(edges.kernel_mean))
        source = eqx.tree_at(lambda s: s.edges, source, edges)
    elif zero is not None:
        start = eqx.tree_at(lambda s: getattr(s, zero), start, 0 * getattr(start, zero))
    return source, start


def filled(sampling, samples, seed=0, kinds=k.COVARIANCE_KINDS, zero=None):
    """Strata with samples, by rounds: later ones know where the earlier ones scattered."""
    decay, start = sampling.training
    strata = sampling.strata(kinds)
    rng = np.random.default_rng(seed)
    # With so few points compilation would take longer than the work itself.
    with jax.disable_jit():
        for stratum in strata:
            stratum.source, own_start = isolated(stratum.source, start, zero)
            own = sampling._replace(training=k.Training(decay, own_start), rows=max(samples))
            for more in samples:
                stratum.add(own, rng, more)
    return strata


@pytest.mark.parametrize(("activation", "hidden", "out", "algorithm", "ridge"), CASES)
def test_every_contraction_is_that_of_the_dense_tensors(activation, hidden, out, algorithm, ridge):
    net, sampling, modes, x = problem(activation, hidden, out, algorithm, ridge=ridge)
    tensors = corrections(net, x, tolerance=1e-5)
    full = np.einsum("aobo->ab", dense_covariance(only(tensors, "G1", "H1"), modes)) / out
    scale = np.abs(dense_covariance(tensors, modes)).max()
    assert_close(unsampled_covariance(sampling), full, QUADRATURE, scale=scale)
    part = dense_parts(tensors, modes)
    for name, (kind, zero, reference) in TERMS.items():
        # Squares of one GELU neuron have heavy tails, and the ddNTK has four weights.
        rounds = 4 if name in ("A", "ddNTK") else 1
        strata = filled(sampling, (SAMPLES,) * rounds, kinds=[kind], zero=zero)
        expected = reference(part)
        error = np.sqrt(sum(s.variance / s.count for s in strata))
        assert np.abs((sum(s.mean for s in strata) - expected) / error).max() < Z_LIMIT, name
        assert np.abs(expected / error).max() > RESOLVED, name


def test_fluctuations_of_one_neuron_make_the_tensors_of_the_outputs():
    """V, D and F as averages over the neurons of every layer, entry by entry."""
    net, *_, x = problem("gelu", (40, 80, 60), 1, fw.GradientFlow())
    x, rows = x[:3], 2**16
    kernels, tensors = layer_kernels(net, x), corrections(net, x, tolerance=1e-5)
    sums = {letter: 0.0 for letter in "VDF"}
    squares = dict(sums)
    for l, (source, scale) in enumerate(layer_sources(kernels, 3, jnp.float64)):
        random = drawn(source, np.random.default_rng(7 + l), rows, 1)
        neuron, unit = Neuron(source, *random.derivatives), jnp.eye(3)[None]
        dK, dTheta = neuron.dkernel(unit), neuron.dtheta(unit)
        L = neuron.back(neuron.lambda_, unit)
        samples = {
            "V": jnp.einsum("rab,rcd->rabcd", dK, dK),
            "D": jnp.einsum("rab,rcd->rabcd", dK, dTheta),
            "F": jnp.einsum("rac,rbd,cd->racbd", L, L, kernels.hidden[l].Theta),
        }
        for letter, value in samples.items():
            sums[letter] += scale * np.asarray(value.mean(axis=0))
            squares[letter] += scale**2 * np.asarray(value.var(axis=0)) / rows
    for letter, value in sums.items():
        expected, error = np.asarray(getattr(tensors, letter)), np.sqrt(squares[letter])
        assert np.abs((value - expected) / error).max() < Z_LIMIT, letter
        assert np.abs(expected / error).min() > RESOLVED, letter


def test_training_leaves_nothing_of_its_own_points():
    """Every kind, delivered to a training point at the end of training, is zero."""
    *_, x = problem("tanh", (40, 60), 1, fw.GradientFlow())
    twice = np.concatenate([x[:4], x[1:3]])
    _, sampling, *_ = problem("tanh", (40, 60), 1, fw.GradientFlow(), twice)
    assert np.abs(unsampled_covariance(sampling)).max() < 1e-9
    for stratum in filled(sampling, (SAMPLES,)):
        assert np.sqrt(stratum.squares / SAMPLES).max() < 1e-9, stratum.kind


def test_without_training_only_the_initial_kernel_is_shifted():
    _, sampling, *_ = problem("tanh", (40, 60), 1, fw.GradientFlow(0.0))
    assert all((s.squares == 0).all() for s in filled(sampling, (SAMPLES,)))
    assert_close(unsampled_covariance(sampling), sampling.shifts.G1[4:, 4:])


def test_the_standard_error_is_the_scatter_between_runs():
    _, sampling, *_ = problem("tanh", (64,), 1, fw.GradientFlow(4.0))
    kinds = [k.StartWithFluctuations(k.KernelVariance())]
    runs = [filled(sampling, (256, 1024), seed, kinds) for seed in range(24)]
    found = np.array([sum(s.mean for s in run) for run in runs])
    stated = np.array([sum(s.variance / s.count for s in run) for run in runs]).mean(axis=0)
    # The variance of 24 runs has a relative standard error of 0.29.
    assert np.abs(found.var(axis=0, ddof=1) / stated - 1).max() < 3 * np.sqrt(2 / 23)


def test_predict_corrects_the_covariance_of_many_points():
    rng = np.random.default_rng(0)
    x, x_test = rng.normal(size=(12, 3)), rng.normal(size=(3, 3))
    seen = []
    method = fw.SampledNeurons(0.3, covariance_error=0.15, key=jax.random.key(1))
    report = lambda done, error: seen.append((done, error))
    problem = (fw.MLP((10**6,), "tanh", 0.1, 1.3), x, np.sin(x[:, 0]), x_test, fw.GradientFlow())
    law = fw.predict(*problem, order=1, method=method, progress=report)
    exact = fw.predict(*problem)
    correction, error = np.asarray(law.covariance_correction), np.asarray(law.covariance_correction_error)
    size = lambda a: float(np.sqrt(np.mean(np.diag(a) ** 2)))
    assert 0 < size(error) <= 0.15 * size(correction)
    assert seen[-1] == (1.0, pytest.approx(size(error) / size(correction)))
    assert any(done < 0.5 for done, _ in seen)
    assert_close(law.covariance, exact.covariance + correction)
    assert_close(correction, correction.T)
    assert law.output_covariance_correction.shape == (3, 1, 3, 1)


def test_a_negative_variance_is_warned_of():
    net, _, modes, x = problem("tanh", (2,), 1, fw.GradientDescent())
    with pytest.warns(UserWarning, match="expansion in 1/width is not small") as given:
        law = fw.predict(net, x[:4], modes.U @ modes.Y, x[4:5], order=1)
    assert any("variance is negative at 1 of 1 test points, where std is 0" in str(w.message) for w in given)
    assert float(law.std.min()) == 0


def test_the_covariance_error_is_checked():
    with pytest.raises(ValueError, match="covariance_error must be positive or None, got 0"):
        fw.SampledNeurons(covariance_error=0.0)
