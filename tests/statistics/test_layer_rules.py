"""Rules of residual blocks, norms and branches: published numbers, exact identities, quadrature."""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from tolerances import DIFFERENCES, assert_close

REFERENCE = pathlib.Path(__file__).parents[1] / "reference" / "architectures-without-positions.json"
CASES = json.loads(REFERENCE.read_text())["cases"]
PUBLISHED = 1e-8

DENSE = fw.Dense(8, 0.1, 1.3, 0.7, 1.1)
GELU, TANH = fw.Activate("gelu"), fw.Activate("tanh")
NORM, READOUT = fw.LayerNorm(epsilon=0.0), fw.Dense(1, 0.05, 1.2, 0.3, 0.8)
BRANCH = (GELU, fw.Dense(8, 0.2, 1.7, 0.4, 0.9))


@pytest.fixture(scope="module")
def x():
    return jax.random.normal(jax.random.key(5), (3, 4))


def kernels_between(*layers, x, before=(DENSE,), after=(READOUT,)):
    """Kernels of layers with others before and behind them."""
    return fw.kernels(fw.Sequential(*before, *layers, *after), x)


def assert_equal_kernels(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("name", CASES)
def test_published_kernels(name):
    case = CASES[name]
    x1, x2 = np.array(case["x1"]), np.array(case["x2"])
    found, n = fw.kernels(fw.network(case["spec"]), np.concatenate([x1, x2])), len(x1)
    for kernel, kind in zip(found, ("nngp", "ntk"), strict=True):
        assert_close(kernel[:n, :n], case[f"{kind}_11"], PUBLISHED, elementwise=True)
        assert_close(kernel[:n, n:], case[f"{kind}_12"], PUBLISHED, elementwise=True)


IDENTITIES = {
    "no branch": ((fw.Residual(*BRANCH, beta=0.0),), ()),
    "no stream": ((fw.Residual(*BRANCH, alpha=0.0),), BRANCH),
    "shortcut of one": ((fw.Residual(*BRANCH, shortcut=[fw.Scale(1.0)]),), (fw.Residual(*BRANCH),)),
    "sum is a residual": ((fw.Sum([], BRANCH),), (fw.Residual(*BRANCH),)),
    "scales are squared": (
        (fw.Sum(fw.Scale(0.8), [*BRANCH, fw.Scale(-0.6)]),),
        (fw.Residual(*BRANCH, alpha=0.8, beta=-0.6),),
    ),
    "a norm of a norm": ((NORM, NORM, GELU), (NORM, GELU)),
    "no mean to subtract": ((fw.LayerNorm(), GELU), (fw.RMSNorm(), GELU)),
    "odd neurons have no mean": ((TANH, fw.LayerNorm()), (TANH, fw.RMSNorm())),
    "a norm forgets the scale": ((fw.Scale(3.0), NORM, GELU), (NORM, GELU)),
    "concatenation with itself": ((fw.Concat(BRANCH, BRANCH),), BRANCH),
    "a constant factor": (
        (GELU, fw.Product([DENSE], [fw.Dense(8, 2.25, 1e-300, 0.0, 0.0)])),
        (GELU, DENSE, fw.Scale(1.5)),
    ),
    "nothing dropped": ((GELU, fw.Dropout(1.0)), (GELU,)),
    "repeated": (
        (fw.Repeat(fw.Residual(*BRANCH, beta=0.5), 3),),
        (fw.Residual(*BRANCH, beta=0.5),) * 3,
    ),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities(name, x):
    ours, theirs = IDENTITIES[name]
    assert_equal_kernels(kernels_between(*ours, x=x), kernels_between(*theirs, x=x))


def test_shares_of_a_concatenation_are_those_of_the_widths(x):
    narrow, wide = fw.Dense(2, 0.3, 0.5, 0.2, 0.6), fw.Dense(6, 0.1, 2.0, 0.9, 1.4)
    each = [kernels_between(layer, x=x, after=()) for layer in (narrow, wide)]
    found = kernels_between(fw.Concat(narrow, wide), x=x, after=())
    assert_equal_kernels(found, [0.25 * a + 0.75 * b for a, b in zip(*each, strict=True)])


def gelu_averages(K):
    """<s>, <s s> and <s' s'> of GELU at two inputs by a grid over two Gaussians."""
    from scipy.special import ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    u, v = np.meshgrid(nodes, nodes, indexing="ij")
    a, b = np.linalg.cholesky(K) @ np.stack([u.ravel(), v.ravel()])
    w = np.outer(weights, weights).ravel()
    slope = lambda z: ndtr(z) + z * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    s = np.stack([a * ndtr(a), b * ndtr(b)])
    return s @ w, (s * w) @ s.T, w @ (slope(a) * slope(b))


@pytest.mark.parametrize("norm", [fw.LayerNorm, fw.RMSNorm])
def test_a_norm_behind_neurons_with_gain_and_shift(norm, x):
    x = np.asarray(x[:2])
    gram = x @ x.T / 4
    K, Theta = 0.1 + 1.3 * gram, 0.7 + 1.1 * gram[0, 1]
    mean, products, slopes = gelu_averages(K)
    if norm is fw.LayerNorm:
        products = products - np.outer(mean, mean)
    size = np.sqrt(products[0, 0] * products[1, 1])
    nngp = products[0, 1] / size
    ntk = slopes * Theta / size + 0.6 * nngp + 0.25
    found = kernels_between(GELU, norm(0.6, 0.25, epsilon=0.0), x=x, after=())
    assert_close(found.nngp[0, 1], nngp, PUBLISHED)
    assert_close(found.ntk[0, 1], ntk, PUBLISHED)
    assert_close(jnp.diag(found.nngp), np.ones(2))


def everything(beta=0.5):
    """Every layer once, with a kinked activation."""
    relu = fw.Activate("relu")
    return fw.Sequential(
        DENSE,
        fw.Repeat(
            fw.Residual(
                fw.LayerNorm(0.3, 0.2), fw.Dense(8, 0.1, 1.0), relu, fw.Dense(8, 0.1, 2.0), beta=beta
            ),
            2,
        ),
        fw.Activate("erf"),
        fw.LayerNorm(),
        fw.Product([DENSE], [DENSE, GELU]),
        fw.RMSNorm(epsilon=1e-3),
        fw.Sum(DENSE, [fw.Dense(8, 0.1, 1.0), GELU, fw.Scale(0.5), DENSE]),
        fw.Concat([GELU, DENSE], [relu, fw.Dense(8, 0.1, 1.0)]),
        fw.Dense(1, 0.1, 1.0),
    )


def test_gradients_of_kernels_are_finite_and_true_with_parallel_inputs(x):
    # Inputs that are equal, and opposite, where the angle between them has no derivative.
    inputs = jnp.concatenate([x, x[:1], -x[1:2]])

    def total(beta, inputs):
        nngp, ntk = fw.kernels(everything(beta), inputs)
        return jnp.sum(jnp.sin(nngp)) + jnp.sum(jnp.cos(ntk))

    by_beta, by_inputs = jax.jit(jax.grad(total, (0, 1)))(jnp.asarray(0.5), inputs)
    assert jnp.isfinite(by_inputs).all()
    step = 1e-5
    value = jax.jit(total)
    plain = [(value(0.5 + s, inputs) - value(0.5 - s, inputs)) / (2 * s) for s in (step, 2 * step)]
    assert_close(by_beta, (4 * plain[0] - plain[1]) / 3, 100 * DIFFERENCES)


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ((GELU, GELU), r"Activate\('gelu'\) stands behind Activate, whose channels are not Gaussian"),
        ((fw.Product([DENSE], [DENSE]), GELU), "stands behind Product"),
        ((fw.Residual(GELU),), "a Residual adds branches that are uncorrelated .* end in Activate and Dense"),
        ((fw.Sum([GELU], []),), "a Sum adds branches that are uncorrelated"),
        ((fw.Product([GELU], []),), "a Product multiplies branches that are independent"),
        ((fw.Concat([], [DENSE]), fw.LayerNorm()), "LayerNorm stands behind Concat, whose mean"),
        ((fw.Concat([], [DENSE]),), "branch 0 of a Concat has as many channels as enter it"),
        ((fw.RMSNorm(1.0), GELU), r"Activate\('gelu'\) stands behind a norm with a gain"),
        ((GELU, fw.Scale(2.0), fw.LayerNorm()), "LayerNorm stands behind Activate"),
    ],
)
def test_networks_without_a_limit_say_so_and_are_real_networks(layers, words, x):
    with pytest.raises(ValueError, match=words):
        kernels_between(*layers, x=x)
    net = fw.Sequential(DENSE, *layers)
    assert jnp.isfinite(net.apply(net.init(jax.random.key(0), 4), x)).all()


@pytest.mark.parametrize("layer", [GELU, fw.LayerNorm(), fw.Dropout(0.5)])
def test_layers_that_need_random_channels_refuse_inputs(layer, x):
    with pytest.raises(ValueError, match="stands behind the inputs"):
        kernels_between(layer, x=x, before=())


def flat(activations, apart=False):
    """Dense layers with activations between them; with `apart`, a layer that does nothing keeps them so."""
    nothing = [fw.Scale(1.0)] if apart else []
    layers = [fw.Dense(8, C_b=0.1, C_W=1.2)]
    for number, name in enumerate(activations):
        dense = fw.Dense(8, C_b=0.1 * number, C_W=1.3, lambda_b=0.5, lambda_W=0.7 + number)
        layers += [fw.Activate(name), *nothing, dense]
    return fw.Sequential(*layers)


@pytest.mark.parametrize(
    "activations",
    [("relu",) * 4, ("tanh",) * 3, ("relu", "relu", "erf", "erf", "erf"), ("erf", "relu", "erf")],
)
def test_stacks_of_dense_layers_are_their_layers_one_by_one(activations, rng):
    x = rng.normal(size=(4, 3))
    together, alone = fw.kernels(flat(activations), x), fw.kernels(flat(activations, apart=True), x)
    assert_close(together.nngp, alone.nngp)
    assert_close(together.ntk, alone.ntk)


def lines_of_program(net, x):
    """How many lines the program of its kernels has."""
    return len(str(jax.make_jaxpr(lambda x: fw.kernels(net, x))(x)).splitlines())


def test_a_deeper_stack_is_the_same_program(rng):
    """Each layer brings its four numbers, and nothing else."""
    x = rng.normal(size=(3, 2))
    shallow, deep = (lines_of_program(flat(("relu",) * depth), x) for depth in (4, 9))
    apart = [lines_of_program(flat(("relu",) * depth, apart=True), x) for depth in (4, 9)]
    assert abs(deep - shallow) <= 5 * 16 < apart[1] - apart[0]
