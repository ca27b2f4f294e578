"""Bayesian networks of finite width: exact for linear networks, the process itself in the wide limit."""

import numpy as np
import pytest
from scipy import integrate
from scipy.special import erf
from scipy.stats import chi2, multivariate_normal

import finitewidth as fw
from finitewidth.prediction.methods.bayesian.scale_mixture import scale_mixture
from tolerances import assert_close

NOISE = 0.3
X = np.array([[1.0, 0.3], [-0.4, 0.8], [0.5, -1.1]])
Y = np.array([0.9, -0.6, 0.4])
X_TEST = np.array([[0.2, 0.7], [-1.0, -0.5]])
EVERY = np.concatenate([X, X_TEST])


def law(net, **settings):
    return fw.predict(net, X, Y, X_TEST, fw.BayesianInference(NOISE, width="finite"), **settings)


def drawn(net, rng, draws):
    """Outputs of linear networks at all points, from nothing but products of their weights."""
    z = np.broadcast_to(EVERY.T, (draws, *EVERY.T.shape))
    for width, layer in zip((*net.hidden, 1), net.layers, strict=True):
        fan_in = z.shape[1]
        W = rng.normal(size=(draws, width, fan_in)) * np.sqrt(layer.C_W / fan_in)
        z = W @ z + rng.normal(size=(draws, width, 1)) * np.sqrt(layer.C_b)
    return z[:, 0]


@pytest.mark.parametrize(
    "net",
    [
        fw.MLP((3,), "linear", 0.0, 1.2),
        fw.MLP((3,), "linear", [0.3, 0.2], 1.2),
        fw.MLP((2, 4, 3), "linear", 0.0, 1.3),
        fw.MLP((2, 4), "linear", [0.2, 0.3, 0.1], 1.3),
    ],
    ids=["one layer", "biases", "three layers", "two layers with biases"],
)
def test_linear_networks_have_their_exact_posterior(net, rng):
    """Draws of whole networks, weighted by how likely they make the labels."""
    f = drawn(net, rng, 400_000)
    weight = np.exp(-0.5 * np.sum((f[:, : len(Y)] - Y) ** 2, axis=1) / NOISE)
    evidence = weight / (2 * np.pi * NOISE) ** (len(Y) / 2)
    share, at_test = weight / weight.sum(), f[:, len(Y) :]
    found = scale_mixture(net, EVERY, Y[:, None], NOISE)
    relative = evidence.std() / evidence.mean() / np.sqrt(len(f))
    assert abs(found.log_evidence - np.log(evidence.mean())) < 4 * relative
    centred = at_test - found.mean
    assert (np.abs(share @ centred) < 4 * np.sqrt(share**2 @ centred**2)).all()
    squares = centred**2 - np.diag(found.covariance)
    assert (np.abs(share @ squares) < 4 * np.sqrt(share**2 @ squares**2)).all()
    assert relative < 0.01


def test_one_hidden_layer_is_an_integral_over_one_number():
    """The mixture for any activation, by adaptive quadrature over Q ~ chi^2_n / n."""
    n, net = 5, fw.MLP((5,), "erf", [0.2, 0.0], 1.5)
    K = np.asarray(fw.kernels(net, EVERY).nngp)
    train = slice(len(Y))

    def weighted(Q, part):
        C = Q * K[train, train] + NOISE * np.eye(len(Y))
        M = np.linalg.solve(C, Q * K[train, len(Y) :]).T
        mean, own = M @ Y, Q * K[len(Y) :, len(Y) :] - M @ (Q * K[train, len(Y) :])
        weight = n * chi2(n).pdf(n * Q) * multivariate_normal(cov=C).pdf(Y)
        return weight * [1.0, mean[0], own[0, 1] + mean[0] * mean[1], mean[1]][part]

    total, first, product, second = (
        integrate.quad(weighted, 0, 12, args=(part,), epsabs=1e-14, epsrel=1e-11)[0] for part in range(4)
    )
    found = scale_mixture(net, EVERY, Y[:, None], NOISE)
    assert_close(found.log_evidence, np.log(total), 1e-8)
    assert_close(found.mean[0], first / total, 1e-8)
    assert_close(found.covariance[0, 1], product / total - first * second / total**2, 1e-8)


def exact_posterior(net, y, draws, rng):
    """Mean and spread of networks with one hidden layer: drawn neurons, the last layer by hand."""
    first, last = net.layers
    n, d = net.hidden[0], EVERY.shape[1]
    z = EVERY @ rng.normal(size=(draws, d, n)) * np.sqrt(first.C_W / d)
    s = erf(z + np.sqrt(first.C_b) * rng.normal(size=(draws, 1, n)))
    K = last.C_b + last.C_W * s @ s.swapaxes(1, 2) / n
    train, across, test = K[:, :3, :3] + NOISE * np.eye(3), K[:, :3, 3:], K[:, 3:, 3:]
    solved = np.linalg.solve(train, np.concatenate([across, np.tile(y[:, None], (draws, 1, 1))], axis=2))
    mean = np.einsum("dap,a->dp", solved[:, :, :-1], y)
    variance = np.einsum("dpp->dp", test) - np.einsum("dap,dap->dp", solved[:, :, :-1], across)
    log_weight = -0.5 * (solved[:, :, -1] @ y + np.linalg.slogdet(train)[1])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return weight @ mean, np.sqrt(weight @ (variance + mean**2) - (weight @ mean) ** 2)


def test_erf_networks_have_nearly_this_spread(rng):
    """Width 16, large labels: infinite width is 7 per cent short, one scale per layer within 3 per cent."""
    net, y = fw.MLP((16,), "erf", 0.1, 1.5), 3 * Y
    size = lambda spread: np.sqrt(np.mean(np.asarray(spread) ** 2))
    exact = size(exact_posterior(net, y, 32_000, rng)[1])
    finite, infinite = (
        size(fw.predict(net, X, y, X_TEST, fw.BayesianInference(NOISE, width)).std)
        for width in ("finite", "infinite")
    )
    assert abs(finite / exact - 1) < 0.03
    assert infinite / exact < 0.94


def test_scales_of_several_layers_fold_into_one_for_relu():
    """The lattice over two scales against the density of their product."""
    net, tiny = fw.MLP((4, 6), "relu", [0.2, 0.0, 0.1], 2.0), fw.MLP((4, 6), "relu", [0.2, 1e-12, 0.1], 2.0)
    folded, lattice = (scale_mixture(n, EVERY, Y[:, None], NOISE) for n in (net, tiny))
    assert_close(lattice.mean, folded.mean, 1e-6)
    assert_close(lattice.covariance, folded.covariance, 1e-6)
    assert_close(lattice.log_evidence, folded.log_evidence, 1e-6)


def test_wide_networks_have_the_posterior_of_the_process():
    correction = [law(fw.MLP((n,), "tanh", 0.1, 1.3)).correction for n in (1000, 4000)]
    size = [float(np.abs(c.mean).max()) for c in correction]
    assert size[0] < 1e-2
    assert 3.5 < size[0] / size[1] < 4.5


def test_finite_evidence_is_found_by_name():
    net = fw.MLP((5,), "erf", [0.2, 0.0], 1.5)
    found = scale_mixture(net, EVERY, Y[:, None], NOISE)
    assert_close(fw.evidence(net, X, Y, NOISE, width="finite"), found.log_evidence)


def test_law_names_its_method_and_travels(tmp_path):
    linear, bent = law(fw.MLP((4,), "linear", 0.0, 1.0)), law(fw.MLP((4,), "erf", 0.0, 1.5))
    assert (linear.range.trusted, bent.range.trusted) == ("yes", "partly")
    linear.save(tmp_path / "law.npz")
    again = fw.load(tmp_path / "law.npz")
    assert again.provenance.algorithm == fw.BayesianInference(NOISE, width="finite")
    assert again.range.method == "one scale per hidden layer"


def test_what_is_not_known_is_refused():
    with pytest.raises(ValueError, match="positive noise variance, got noise=0"):
        fw.predict(fw.MLP((4,), "erf"), X, Y, X_TEST, fw.BayesianInference(width="finite"))
    inference = fw.BayesianInference(NOISE, width="finite")
    with pytest.raises(ValueError, match="one output, and there are 2 columns"):
        fw.predict(fw.MLP((4,), "erf"), X, np.stack([Y, Y], 1), X_TEST, inference)
    with pytest.raises(ValueError, match="at most 3 hidden layers of 'erf', got 4"):
        law(fw.MLP((4,) * 4, "erf"))
    with pytest.raises(ValueError, match="no hidden layer"):
        law(fw.MLP((), "erf"))
    with pytest.raises(ValueError, match="method belongs to gradient descent"):
        law(fw.MLP((4,), "erf"), method=fw.MeanField())
