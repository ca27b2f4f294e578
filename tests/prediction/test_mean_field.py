"""Neurons in the mean field: order 1/width, real networks beyond it, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.methods.mean_field import equations
from finitewidth.prediction.methods.mean_field.neurons import Field, Neuron, Population, settle

X = np.array([[1.1, 0.2, -0.5], [-0.8, 1.0, 0.3], [0.1, -1.2, 0.8], [0.3, 0.6, 1.3]])
Y = np.array([0.9, -0.7, 0.5, 1.1])
X_TEST = np.array([[0.7, 0.8, 0.2], [-0.4, -0.3, 0.5]])
RIDGE = 3.0


def network(width: int, activation: str = "tanh") -> fw.MLP:
    return fw.MLP((width,), activation, [0.1, 0.2], [1.3, 1.1], [0.1, 0.3], [1.0, 0.8])


def law(net, method=None, *, ridge=RIDGE, order=0, **settings):
    return fw.predict(net, X, Y, X_TEST, ridge=ridge, order=order, method=method, **settings)


@pytest.fixture(scope="module")
def wide():
    return law(network(2000), fw.MeanField(16_384)).correction


@pytest.mark.parametrize("part", ["mean", "covariance"])
def test_wide_networks_have_the_first_order(wide, part):
    expected = np.asarray(getattr(law(network(2000), order=1).correction, part))
    found, error = (np.asarray(getattr(wide, name)) for name in (part, f"{part}_error"))
    assert np.abs(found - expected).max() < 4 * error.max()
    # A wrong factor would be seen.
    assert error.max() < 0.15 * np.abs(expected).max()


def test_neurons_rest_where_their_energy_is_least(rng):
    net, train = network(16), len(X)
    x = np.concatenate([X, X_TEST])
    neuron, start = Neuron.of(net, x), Population.draw(net, x, train, 64, jax.random.key(1))
    root = rng.normal(size=(train, train))
    field = Field(*map(jnp.asarray, (2 * rng.normal(size=train), 0.2 * root, root @ root.T)))
    u = jnp.zeros((*start.readout.shape, 5))
    for _ in range(20):
        u, found = settle(neuron, start, u, field)
    group = Population(*(part[0] for part in start))
    e = field.mean + group.noise @ field.root

    def energy(u):
        g = neuron.added(group, u)[:, :train]
        return jnp.sum(0.5 * u**2) - jnp.sum(e * g) + 0.5 * jnp.sum((g @ field.response) * g)

    gradient = jax.grad(energy)(u[0])
    assert np.abs(gradient).max() < 1e-9
    # Each neuron's answer to the field, against neurons that rest in a slightly different one.
    h = 1e-5
    shifted = [field._replace(mean=field.mean + sign * h * np.eye(train)[1]) for sign in (1, -1)]
    ends = [neuron.added(group, settle(neuron, start, u, other)[0][0]) for other in shifted]
    by_hand = group.weight @ (ends[0] - ends[1]) / (2 * h)
    v, (s, ds) = neuron.outputs(group, jnp.zeros_like(u[0]), 1)
    slopes = neuron.slopes(v, s, ds)
    at_start = np.einsum("m,mqp,mq->p", group.weight, slopes, slopes[:, :, 1])
    np.testing.assert_allclose(found.answer[0][:, 1], by_hand - at_start, rtol=1e-6, atol=1e-9)


def test_law_travels_and_names_its_range(tmp_path):
    found = law(network(64), fw.MeanField(64))
    found.save(tmp_path / "law.npz")
    again = fw.load(tmp_path / "law.npz")
    assert isinstance(again.provenance.method, fw.MeanField)
    assert np.array_equal(again.mean, found.mean)
    assert again.range == found.range
    assert again.range.method == "MeanField"


def test_what_is_not_described_is_refused():
    with pytest.raises(ValueError, match="one hidden layer, and this network has 2"):
        law(fw.MLP((8, 8), "tanh"), fw.MeanField(64))
    with pytest.raises(ValueError, match="ridge=0"):
        law(network(8), fw.MeanField(64), ridge=0.0)
    with pytest.raises(ValueError, match="end of training"):
        law(network(8), fw.MeanField(64), algorithm=fw.GradientDescent(steps=3))
    with pytest.raises(ValueError, match="kink"):
        law(network(8, "relu"), fw.MeanField(64))
    with pytest.raises(ValueError, match="one output, and y_train has 2"):
        fw.predict(network(8), X, np.stack([Y, Y], 1), X_TEST, ridge=1.0, method=fw.MeanField(64))
    with pytest.raises(ValueError, match="neurons must be a whole number of at least 64"):
        fw.MeanField(8)


def test_no_solution_is_one_sentence(monkeypatch):
    monkeypatch.setattr(equations, "_MOST_ITERATIONS", 1)
    with pytest.raises(equations.NoSolutionError, match="no solution within reach at width 3"):
        law(network(3), fw.MeanField(64), ridge=1e-3)


def test_neurons_that_never_rest_are_one_sentence(monkeypatch):
    """Ten times as many iterations do not help: labels of a hundred, two neurons, next to no ridge."""
    monkeypatch.setattr(equations, "_MOST_ITERATIONS", 600)
    with pytest.raises(
        equations.NoSolutionError, match=r"no solution within reach at width 2.*neurons move too far"
    ):
        fw.predict(network(2, "sin"), X, 100 * Y, X_TEST, ridge=1e-3, method=fw.MeanField(64))


def test_many_neurons_settle():
    """Among many neurons a few are still on their way; averages do not wait for them.

    Networks have the means 2.273(4) and 0.443(6): a thousand pairs, as in the claim `trained-mean-field`.
    """
    x = np.concatenate([X, [[-1.2, -0.4, -0.6], [0.5, -0.3, -1.4]]])
    y = np.array([2.7, -2.1, 1.5, 3.3, -1.2, 1.8])
    net = fw.MLP((16,), "tanh", C_b=0.1, C_W=1.3, lambda_b=0.1)
    found = fw.predict(net, x, y, X_TEST, ridge=0.1, method=fw.MeanField(32_768))
    error = np.hypot(np.asarray(found.mean_correction_error)[:, 0], [0.004, 0.006])
    assert (np.abs(np.asarray(found.mean)[:, 0] - [2.273, 0.443]) < 3 * error).all()
