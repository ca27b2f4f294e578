import sys

import gpjax as gpx
import jax
import jax.numpy as jnp
import optax
import pytest

import finitewidth as fw
from tolerances import assert_close

NET = fw.MLP((8, 8), "relu", C_b=[0.1, 0.2, 0.0], C_W=1.5)
X, XT = (jax.random.normal(jax.random.key(i), (n, 3)) for i, n in ((0, 6), (1, 2)))
DATA = gpx.Dataset(X, jnp.sin(X[:, :1]))


def posterior(kernel):
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=kernel)
    return prior * gpx.likelihoods.Gaussian(obs_stddev=jnp.array(0.3))


@pytest.mark.parametrize("which", ["nngp", "ntk"])
def test_matrices_are_those_of_kernels(which):
    kernel = fw.gpjax_kernel(NET, which)
    own = lambda *x: getattr(fw.kernels(NET, *x), which)
    assert_close(kernel.gram(X).as_matrix(), own(X))
    assert_close(kernel.cross_covariance(X, XT), own(X, XT))
    assert_close(kernel(X[0], XT[1]), own(X, XT)[0, 1])
    assert_close(kernel.diagonal(X).as_matrix(), jnp.diag(jnp.diag(own(X))))


def test_gpjax_computes_our_evidence():
    ours = fw.evidence(NET, X, DATA.y, 0.09)
    assert_close(gpx.objectives.conjugate_mll(posterior(fw.gpjax_kernel(NET)), DATA), ours, 1e-6)


def test_gpjax_conditions_as_we_do():
    found = posterior(fw.gpjax_kernel(NET)).predict(XT, train_data=DATA)
    assert_close(found.mean, fw.predict(NET, X, DATA.y, XT, fw.BayesianInference(0.09)).mean[:, 0], 1e-5)


def test_only_positive_variances_are_trained():
    """C_b of the last layer is zero, so the biases stay as they are; the weights' variances move."""
    net = fw.MLP((8,), "relu", C_b=[0.1, 0.0], C_W=1.5)
    model = posterior(fw.gpjax_kernel(net))
    objective = lambda model, data: -gpx.objectives.conjugate_mll(model, data)
    fitted, losses = gpx.fit(
        model=model, objective=objective, train_data=DATA, optim=optax.adam(0.1), num_iters=5, verbose=False
    )
    after = fitted.prior.kernel.network()
    assert losses[-1] < losses[0]
    assert_close(after.C_b, net.C_b)
    assert float(jnp.min(jnp.abs(after.C_W - 1.5))) > 0.01
    assert_close(after.lambda_W, net.lambda_W)


def test_without_gpjax_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpjax.kernels", None)
    monkeypatch.delitem(sys.modules, "finitewidth.estimators.gpjax_adapter", raising=False)
    with pytest.raises(ModuleNotFoundError, match="GPJax is not installed"):
        fw.gpjax_kernel(NET)
