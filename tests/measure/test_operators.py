"""Curvature operators against dense matrices, and their spectra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.sparse.linalg import eigsh
from scipy.stats import wasserstein_distance

import finitewidth as fw
from finitewidth import measure
from tolerances import SOLVE, assert_close

NET = fw.MLP((6, 5), "tanh", n_out=3)
PARAMS = NET.init(jax.random.key(1), 4)
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(20, 4)), RNG.integers(0, 3, 20)
# What the operators promise against dense second derivatives.
DENSE = 1e-8


@pytest.fixture(scope="module")
def small():
    return measure.specimen(NET, X, Y, params=PARAMS, batch_size=12)


@pytest.fixture(scope="module")
def dense():
    """The Hessian, J, and the probabilities, by JAX alone."""
    flat, unravel = jax.flatten_util.ravel_pytree(PARAMS)
    outputs = lambda w: NET.apply(unravel(w), jnp.asarray(X))
    loss = lambda w: -jnp.mean(jax.nn.log_softmax(outputs(w))[jnp.arange(20), Y])
    return [
        np.asarray(part)
        for part in (jax.hessian(loss)(flat), jax.jacobian(outputs)(flat), jax.nn.softmax(outputs(flat)))
    ]


def matrix(operator):
    return operator @ np.eye(operator.shape[0])


def test_hessian(small, dense):
    assert_close(matrix(measure.hessian(small)), dense[0], DENSE)


def test_gauss_newton_and_fisher(small, dense):
    _, jacobian, p = dense
    by_outputs = np.einsum("ia,ab->iab", p, np.eye(3)) - p[:, :, None] * p[:, None]
    expected = np.einsum("iap,iab,ibq->pq", jacobian, by_outputs, jacobian) / 20
    assert_close(matrix(measure.gauss_newton(small)), expected, DENSE)
    assert_close(matrix(measure.fisher(small)), expected, DENSE)
    assert_close(matrix(measure.model_curvature(small)), dense[0] - expected, DENSE)


def test_fisher_is_the_average_over_labels_of_the_model(small, dense):
    """Every label in turn, weighted with its probability."""
    _, jacobian, p = dense
    expected = sum(
        p[i, c] * np.outer(g, g)
        for i in range(20)
        for c in range(3)
        for g in [(p[i] - np.eye(3)[c]) @ jacobian[i]]
    )
    assert_close(matrix(measure.fisher(small)), expected / 20, DENSE)


def test_empirical_fisher(small, dense):
    _, jacobian, p = dense
    gradients = np.einsum("ia,iap->ip", p - np.eye(3)[Y], jacobian)
    assert_close(matrix(measure.empirical_fisher(small)), gradients.T @ gradients / 20, DENSE)


def test_fisher_of_the_squared_error(dense):
    s = measure.specimen(NET, X, np.zeros((20, 3)), params=PARAMS)
    jacobian = dense[1].reshape(60, -1)
    assert_close(matrix(measure.fisher(s)), jacobian.T @ jacobian / 20, DENSE)
    assert_close(matrix(measure.gauss_newton(s)), jacobian.T @ jacobian / 20, DENSE)


def test_tangent_kernel(small, dense):
    jacobian = dense[1].reshape(60, -1)
    assert_close(matrix(measure.tangent_kernel(small)), jacobian @ jacobian.T, DENSE)


def test_an_operator_speaks_scipy_and_counts(small, dense):
    operator = measure.hessian(small)
    v = RNG.normal(size=operator.shape[0])
    assert_close(v @ operator, dense[0] @ v, DENSE)
    assert_close((2 * operator + operator.T) @ v, 3 * dense[0] @ v, DENSE)
    assert operator.products == 3
    values = np.linalg.eigvalsh(dense[0])
    assert_close(eigsh(operator, k=1, which="LA", return_eigenvectors=False), values[-1:], SOLVE)


@pytest.mark.parametrize("which", ["largest", "smallest", "both", "magnitude"])
def test_eigenpairs_of_the_hessian(small, dense, which):
    found = measure.eigenpairs(measure.hessian(small), 4, which, tolerance=1e-9)
    values = np.linalg.eigvalsh(dense[0])
    expected = {
        "largest": values[::-1][:4],
        "smallest": values[:4],
        "both": values[[-1, 0, -2, 1]],
        "magnitude": values[np.argsort(-np.abs(values))][:4],
    }[which]
    assert_close(found.values, expected, DENSE)
    exact = np.linalg.norm(dense[0] @ found.vectors - found.values * found.vectors, axis=0)
    assert (exact <= found.residuals).all()
    assert (found.residuals <= 1e-9 * np.abs(values).max()).all()
    assert 20 <= found.products <= len(values)


def test_a_search_that_is_cut_short_says_so(small):
    with pytest.warns(RuntimeWarning, match="after 22 products a residual is"):
        found = measure.eigenpairs(measure.hessian(small), 4, tolerance=1e-12, most_products=22)
    assert found.products == 22
    assert found.residuals.max() > 1e-12


def test_a_few_steps_do_not_pass_for_the_largest():
    """The start lies almost in the space of the second eigenvector: a residual alone would be content."""
    operator = measure.SymmetricOperator(lambda v: np.linspace(0, 1, 400) ** 4 * v, 400, float)
    start = np.eye(400)[398] + 1e-6
    found = measure.eigenpairs(operator, 1, start=start)
    assert abs(found.values[0] - 1) < 1e-4


def test_both_frameworks_have_the_same_eigenvalues():
    params = jax.tree.map(lambda leaf: leaf.astype(np.float32), PARAMS)
    ours = measure.specimen(NET, X, Y, params=params)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)
    )
    theirs = measure.specimen(model, X, Y).at(ours.weights)
    for operator in (measure.hessian, measure.gauss_newton):
        found, expected = (measure.eigenpairs(operator(s), 3, tolerance=1e-6).values for s in (theirs, ours))
        assert_close(found, expected, 1e-5)


def test_overlap_and_share():
    turn = np.linalg.qr(RNG.normal(size=(6, 6)))[0]
    assert_close(measure.overlap(turn[:, :2], turn[:, :2] @ np.array([[0.6, 0.8], [-0.8, 0.6]])), 1.0)
    assert_close(measure.overlap(turn[:, :2], turn[:, 1:3]), 0.5)
    assert_close(measure.share_in_space(3 * turn[:, 0] + 4 * turn[:, 4], turn[:, :2]), 9 / 25)


def spectrum_with_outliers(seed):
    """Three large eigenvalues above a bulk of 297."""
    rng = np.random.default_rng(seed)
    values = np.concatenate([0.5 * rng.normal(size=297) ** 2, [20.0, 30.0, 50.0]])
    turn = np.linalg.qr(rng.normal(size=(300, 300)))[0]
    dense = turn * values @ turn.T
    return values, measure.SymmetricOperator(dense.dot, 300, float)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("outliers", [0, 3])
def test_density_against_the_exact_spectrum(seed, outliers):
    values, operator = spectrum_with_outliers(seed)
    density = measure.spectral_density(
        operator, key=jax.random.key(seed), probes=8, steps=30, outliers=outliers
    )
    places = np.concatenate([density.outliers, density.nodes.ravel()])
    masses = np.concatenate([np.full(outliers, 1 / 300), density.weights.ravel() / 8])
    distance = wasserstein_distance(values, places, v_weights=masses)
    # The mean of |error| is 0.8 standard errors; both are sums over the whole axis.
    assert distance < 2 * density.wasserstein_error
    assert density.wasserstein_error < (0.05 if outliers else 0.5) * values.mean()
    assert density.products == operator.products


def test_share_below_and_smoothed_density():
    values, operator = spectrum_with_outliers(0)
    density = measure.spectral_density(operator, key=jax.random.key(4), probes=8, steps=30, outliers=3)
    places = np.array([0.2, 1.0, 25.0, 60.0])
    share = density.share_below(places)
    exact = np.mean(values[:, None] <= places, axis=0)
    assert (np.abs(share.value - exact) < 4 * share.sem + 1e-12).all()
    # What lies between the bulk and the outliers, and beyond them, is counted exactly.
    assert_close(share.value[2:], exact[2:])
    grid = np.linspace(-5, 60, 4001)
    smooth = density.smoothed(grid, 0.2)
    assert_close(np.trapezoid(smooth.value, grid), 1.0, 1e-6)
    bump = np.exp(-0.5 * ((places[1] - values) / 0.2) ** 2) / (0.2 * np.sqrt(2 * np.pi))
    at_one = density.smoothed(places[1:2], 0.2)
    assert abs(at_one.value[0] - bump.mean()) < 4 * at_one.sem[0]


@pytest.mark.parametrize("outliers", [0, 3])
def test_trace_and_moments(outliers):
    values, operator = spectrum_with_outliers(1)
    errors = []
    for seed in range(40):
        found = measure.trace(operator, key=jax.random.key(seed), probes=4, outliers=outliers)
        errors.append(((found.value - values.sum()), found.sem))
    wrong, sem = np.array(errors).T
    # Forty independent runs: their mean is right, and they scatter as they say.
    assert abs(wrong.mean()) < 4 * wrong.std() / np.sqrt(40)
    assert 0.7 < wrong.std() / np.sqrt(np.mean(sem**2)) < 1.4
    density = measure.spectral_density(operator, key=jax.random.key(0), outliers=outliers)
    for power in (1, 2):
        moment = density.moment(power)
        assert abs(moment.value - np.mean(values**power)) < 4 * moment.sem


def test_taking_outliers_out_saves_probes():
    """At a matrix whose outliers carry most of the squared spectrum, the error falls as without them."""
    _, operator = spectrum_with_outliers(2)
    pairs = measure.eigenpairs(operator, 3, "magnitude")
    plain = measure.trace(operator, key=jax.random.key(1), probes=100, outliers=0).sem
    deflated = measure.trace(operator, key=jax.random.key(1), probes=100, outliers=pairs).sem
    # The root of what is left of the squared spectrum, 223 of 4023.
    assert 0.2 < deflated / plain < 0.27


def test_sharpness_along_a_training(small, dense):
    rows = [small.weights]
    for _ in range(3):
        rows.append(rows[-1] - 0.5 * small.at(rows[-1]).gradient())
    found = measure.sharpness_along(small, iter(rows), tolerance=1e-6)
    for row, value, residual in zip(rows, found.values, found.residuals, strict=True):
        exact = np.linalg.eigvalsh(matrix(measure.hessian(small.at(row))))[-1]
        assert abs(value - exact) <= residual
    assert_close(found.values[0], np.linalg.eigvalsh(dense[0])[-1], DENSE)
    assert found.products[0] >= 20
    assert found.products[1:].max() < found.products[0]


def test_sharpness_starts_with_the_last_eigenvector(small):
    """While the weights hardly move, the last eigenvector saves products that a random start takes."""
    rows = [small.weights, small.weights - 0.01 * small.gradient()]
    warm = measure.sharpness_along(small, rows, tolerance=1e-5, least_products=1).products[1]
    cold = measure.eigenpairs(measure.hessian(small.at(rows[1])), 1, tolerance=1e-5, least_products=1)
    assert warm < cold.products


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda o: measure.eigenpairs(o, 0), "k must be a whole number"),
        (lambda o: measure.eigenpairs(o, 1000), "k=1000 eigenpairs were asked of a matrix with"),
        (lambda o: measure.eigenpairs(o, 1, "top"), "which must be one of 'largest'"),
        (lambda o: measure.eigenpairs(o, 1, tolerance=0), "tolerance must be a positive number"),
        (lambda o: measure.trace(o, key=0), "key must be one key"),
        (lambda o: measure.trace(o, key=jax.random.key(0), probes=1), "probes must be a whole number"),
        (lambda o: measure.overlap(np.ones((3, 1)), np.ones((3, 2))), "two bases of one shape"),
    ],
)
def test_refusals(small, call, sentence, unchecked_annotations):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call(measure.hessian(small))


def test_a_loss_of_ones_own_has_no_fisher_matrix():
    s = measure.specimen(NET, X, Y, params=PARAMS, loss=lambda f, y: jnp.mean(f**4))
    with pytest.raises(ValueError, match="labels drawn from the model"):
        measure.fisher(s)


def test_no_weights_have_no_sharpness(small):
    with pytest.raises(ValueError, match="weights is empty"):
        measure.sharpness_along(small, [])
