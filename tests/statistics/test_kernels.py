"""Kernels against published numbers, exact identities and properties that hold for every network."""

import json
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import finitewidth as fw
import oracle
from finitewidth.architecture.activations import as_activation
from finitewidth.expectations.kinked.kinks import shape_at_zero
from finitewidth.statistics.wide.kernels import trajectory
from tolerances import CLOSED_FORM, DIFFERENCES, ROUNDING, SERIES, assert_close

REFERENCE = pathlib.Path(__file__).parents[1] / "reference"
CASES = json.loads((REFERENCE / "kernels.json").read_text())["cases"]
LECTURES = json.loads((REFERENCE / "lectures.json").read_text())
NAMES = {"leaky_relu_0.1": "leaky_relu:0.1"}
REGULAR = [n for n in fw.ACTIVATION_NAMES if n != "step"]


def case_id(case) -> str:
    return f"{case['activation']}-{case['depth']}"


def network(case, activation) -> fw.MLP:
    rates = {name: case[name] for name in ("C_b", "C_W", "lambda_b", "lambda_W")}
    return fw.MLP((8,) * (case["depth"] - 1), activation, **rates)


def manual_kernels(name, C_b, C_W, lambda_b, lambda_W, x1, x2):
    """The recursion for one pair of inputs after the other, with quadrature for the averages."""
    neuron = oracle.NEURONS[name]

    def one(a, b):
        n = len(a)
        K = np.array([[a @ a, a @ b], [a @ b, b @ b]]) / n
        K, theta = C_b[0] + C_W[0] * K, lambda_b[0] + lambda_W[0] * K[0, 1]
        for l in range(1, len(C_b)):
            rho = np.clip(K[0, 1] / np.sqrt(K[0, 0] * K[1, 1]), -1, 1)
            value, slope = oracle.pair_averages(neuron, K[0, 0], K[1, 1], rho)
            square_a, square_b = (oracle.layer(neuron, q).g for q in np.diag(K))
            K = C_b[l] + C_W[l] * np.array([[square_a, value], [value, square_b]])
            theta = lambda_b[l] + lambda_W[l] * value + C_W[l] * slope * theta
        return K[0, 1], theta

    both = np.array([[one(a, b) for b in x2] for a in x1])
    return both[..., 0], both[..., 1]


@pytest.mark.parametrize("plain", [False, True], ids=["closed form", "series"])
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_reference_kernels(case, plain):
    activation, tolerance = as_activation(NAMES.get(case["activation"], case["activation"])), CLOSED_FORM
    if plain:
        activation, tolerance = fw.Activation(activation.function, name="plain"), SERIES
    net = network(case, activation)
    x_train, x_test = np.array(case["x_train"]), np.array(case["x_test"])
    train, test = fw.kernels(net, x_train), fw.kernels(net, x_test, x_train)
    assert_close(train.nngp, case["nngp_train"], tolerance, elementwise=True)
    assert_close(train.ntk, case["ntk_train"], tolerance)
    assert_close(test.nngp, case["nngp_test_train"], tolerance)
    assert_close(test.ntk, case["ntk_test_train"], tolerance)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_reference_predictions(case):
    """Gradient flow on the mean squared error and Bayesian regression, from our kernels."""
    net = network(case, NAMES.get(case["activation"], case["activation"]))
    x_train, x_test = np.array(case["x_train"]), np.array(case["x_test"])
    train, cross, test = fw.kernels(net, x_train), fw.kernels(net, x_test, x_train), fw.kernels(net, x_test)
    y = np.array(case["y_train"])
    eigenvalues, vectors = np.linalg.eigh(train.ntk)
    for time, expected in case["predict"].items():
        decay = np.exp(-eigenvalues * float(time) / len(y))
        moved = cross.ntk @ vectors @ np.diag((1 - decay) / eigenvalues) @ vectors.T
        mean = moved @ y
        covariance = test.nngp + moved @ train.nngp @ moved.T - moved @ cross.nngp.T - cross.nngp @ moved.T
        assert_close(mean, np.ravel(expected["ntk_mean"]), SERIES)
        assert_close(covariance, expected["ntk_cov"], SERIES)
        if "nngp_mean" in expected:
            gain = np.linalg.solve(train.nngp, cross.nngp.T).T
            assert_close(gain @ y, np.ravel(expected["nngp_mean"]), SERIES)
            assert_close(test.nngp - gain @ cross.nngp.T, expected["nngp_cov"], SERIES)


def test_tanh_variance_decays_with_depth():
    lecture = LECTURES["tanh-critical-kernel-decay"]
    net = fw.MLP((1,) * 99, "tanh", C_b=0.0, C_W=1.0)
    K = fw.trajectory(net, np.array([[1.0]])).nngp[:, 0]
    layers = np.array([int(l) for l in lecture["K_l"]])
    assert_close(K[layers - 1], list(lecture["K_l"].values()), SERIES, elementwise=True)


def test_relu_angles_decay_with_depth():
    for depth, angle in LECTURES["relu-angle-decay"]["phi_l"].items():
        net = fw.MLP((1,) * (int(depth) - 1), "relu", C_b=0.0, C_W=2.0)
        K = fw.kernels(net, np.eye(2)).nngp
        assert_close(np.arccos(K[0, 1] / K[0, 0]), angle, SERIES)


def test_tanh_covariance_of_two_hidden_layers():
    lecture = LECTURES["nngp-covariance"]
    given_ = lecture["inputs"]
    net = fw.MLP((1,) * given_["hidden_layers"], "tanh", C_b=given_["C_b"], C_W=given_["C_w"])
    x = np.array([given_["x_a"], given_["x_b"]], dtype=float)
    assert_close(fw.kernels(net, x).nngp, lecture["K3"], SERIES)


def test_relu_ntk_of_two_inputs():
    """NTK parametrisation: lambda_W = C_W = 2 and no biases; `hidden` layers as the key."""
    lecture = LECTURES["ntk-off-diagonal"]
    pairs = {
        "Theta_inf": np.array([lecture["inputs"]["x"], lecture["inputs"]["y"]]),
        "orthonormal_n0_3": np.eye(3)[:2],
    }
    for name, x in pairs.items():
        for hidden, expected in lecture[name].items():
            net = fw.MLP((1,) * int(hidden), "relu", C_b=0.0, C_W=2.0, lambda_b=0.0, lambda_W=2.0)
            assert_close(fw.kernels(net, x).ntk[0, 1], expected, CLOSED_FORM)


@pytest.mark.parametrize("name", fw.ACTIVATION_NAMES)
def test_per_layer_hyperparameters_compose(name, rng):
    """Three layers with twelve different hyperparameters, against the recursion by quadrature."""
    C_b, lambda_b, lambda_W = ([0.1, 0.3, 0.0], [0.5, 0.0, 1.2], [1.0, 0.4, 0.7])
    C_W = [1.5, 0.8, 1.1]
    x = rng.normal(size=(3, 4))
    x1, x2 = x[:2], np.stack([x[2], -x[0]])
    net = fw.MLP((5, 5), name, C_b=C_b, C_W=C_W, lambda_b=lambda_b, lambda_W=lambda_W)
    found = fw.kernels(net, x1, x2)
    nngp, ntk = manual_kernels(name, C_b, C_W, lambda_b, lambda_W, x1, x2)
    tolerance = CLOSED_FORM if as_activation(name).closed_form else SERIES
    assert_close(found.nngp, nngp, tolerance)
    assert_close(found.ntk, ntk, tolerance)


@pytest.mark.parametrize("name", ["relu", "gelu", "tanh", "elu"])
def test_rectangular_is_the_block_of_the_symmetric(name, rng):
    x = rng.normal(size=(7, 3))
    net = fw.MLP((4, 4), name, C_b=0.2, C_W=1.4)
    whole, block = fw.kernels(net, x), fw.kernels(net, x[:4], x[2:])
    # Where a point meets itself the symmetric kernel has the exact diagonal.
    tolerance = None if as_activation(name).closed_form else SERIES
    assert_close(block.nngp, whole.nngp[:4, 2:], tolerance)
    assert_close(block.ntk, whole.ntk[:4, 2:], tolerance)


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_tiles_do_not_show(name, rng):
    """More points than a tile holds, and no multiple of it, equal the same kernel piece by piece."""
    x1, x2 = rng.normal(size=(1111, 3)), rng.normal(size=(530, 3))
    net = fw.MLP((4, 4), name, C_b=0.2, C_W=1.4)

    def compute(*x):
        return fw.kernels(net, *x, terms=16)

    square, rectangle = compute(x1), compute(x1, x2)
    pieces = [compute(x1[i : i + 101], x1[:202]) for i in range(0, 1111, 101)]
    away = np.abs(np.arange(1111)[:, None] - np.arange(202)) > 0  # the symmetric kernel's diagonal is exact
    for index in (0, 1):
        assert (np.asarray(square[index]) == np.asarray(square[index]).T).all()
        direct = np.concatenate([piece[index] for piece in pieces])
        assert_close(square[index][:, :202][away], direct[away])
        assert_close(np.diag(square[index]), fw.trajectory(net, x1)[index][-1], CLOSED_FORM)
        block = np.concatenate([compute(x1[-101:], x2[i : i + 265])[index] for i in (0, 265)], axis=1)
        assert_close(rectangle[index][-101:], block)
        assert_close(rectangle[index][7, 529], compute(x1[7:8], x2[529:])[index][0, 0])


@pytest.mark.parametrize("hidden", [(), (3,), (3, 3, 3)])
def test_linear_network_ntk_is_depth_times_gram(hidden, rng):
    x = rng.normal(size=(5, 3))
    found = fw.kernels(fw.MLP(hidden, "linear", C_b=0.0, C_W=1.0, lambda_b=0.0), x)
    assert_close(found.nngp, x @ x.T / 3)
    assert_close(found.ntk, (len(hidden) + 1) * x @ x.T / 3)


@pytest.mark.parametrize("name", fw.ACTIVATION_NAMES)
def test_depth_one_is_a_linear_model(name, rng):
    x = rng.normal(size=(4, 3))
    found = fw.kernels(fw.MLP((), name, C_b=0.3, C_W=1.7, lambda_b=0.5, lambda_W=0.9), x)
    assert_close(found.nngp, 0.3 + 1.7 * x @ x.T / 3)
    assert_close(found.ntk, 0.5 + 0.9 * x @ x.T / 3)


@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "elu"])
def test_jit_agrees(name, rng):
    x = rng.normal(size=(4, 3))
    net = fw.MLP((4,), name, C_b=0.1, C_W=1.2)
    inside, outside = jax.jit(lambda x: fw.kernels(net, x, terms=48))(x), fw.kernels(net, x, terms=48)
    assert_close(inside.nngp, outside.nngp)
    assert_close(inside.ntk, outside.ntk)


def test_known_arrays_are_checked_inside_jit(rng):
    x, C_b = jnp.asarray(rng.normal(size=(3, 2))), jnp.array([0.1, 0.2])
    net = fw.MLP((4,), "relu", C_b=0.0, C_W=1.0)
    scaled = jax.jit(lambda s: s * fw.kernels(fw.MLP((4,), "relu", C_b=C_b, C_W=s), x).nngp)(1.0)
    assert_close(scaled, fw.kernels(fw.MLP((4,), "relu", C_b=C_b, C_W=1.0), x).nngp)
    dead = x.at[2].set(0.0)
    with pytest.raises(ValueError, match="zero vector in row 2"):
        jax.jit(lambda s: s * fw.kernels(net, dead).nngp)(1.0)


def test_network_and_activation_may_be_made_inside_jit(rng):
    x = rng.normal(size=(3, 2))

    @jax.jit
    def ntk(x):
        return fw.kernels(fw.MLP((4,), lambda z: jnp.arctan(z)), x).ntk

    assert_close(ntk(x), fw.kernels(fw.MLP((4,), jnp.arctan), x).ntk, SERIES)


@pytest.mark.parametrize("name", fw.ACTIVATION_NAMES)
def test_float32_stays_and_agrees(name, rng):
    x = rng.normal(size=(5, 3)).astype(np.float32)
    net = fw.MLP((4, 4), name, C_b=0.1, C_W=1.2)
    single, double = fw.kernels(net, x), fw.kernels(net, x.astype(np.float64))
    for a, b in zip(single, double, strict=True):
        assert (a.dtype, b.dtype) == (jnp.float32, jnp.float64)
        assert_close(a, b.astype(np.float32))


def test_mixed_and_integer_inputs_become_float64(rng):
    net = fw.MLP((4,), "relu")
    x = rng.normal(size=(2, 3))
    assert fw.kernels(net, x.astype(np.float32), x).ntk.dtype == jnp.float64
    assert fw.kernels(net, [[1, 2, 3], [0, 1, 0]]).ntk.dtype == jnp.float64


@pytest.mark.parametrize("name", fw.ACTIVATION_NAMES)
def test_gradients_are_finite_at_identical_and_opposite_inputs(name, rng):
    x = rng.normal(size=(2, 3))
    x = jnp.asarray(np.concatenate([x, x[:1], -x[:1]]))

    def total(x, C_b, C_W):
        net = fw.MLP((4,), name, C_b=C_b, C_W=C_W)
        return sum(jnp.sum(kernel) for kernel in fw.kernels(net, x, terms=8))

    value, gradients = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2)))(x, 0.0, 1.3)
    assert np.isfinite(value)
    assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("name", ["relu", "gelu", "tanh", "elu", "cos"])
def test_gradients_equal_finite_differences(name, rng):
    x1, x2 = jnp.asarray(rng.normal(size=(2, 3))), jnp.asarray(rng.normal(size=(2, 3)))
    weights = rng.normal(size=(2, 2, 2))
    start = {"x1": x1, "C_b": jnp.array([0.1, 0.2, 0.3]), "C_W": jnp.array([1.5, 1.0, 1.2])}
    start |= {"lambda_b": jnp.array([0.3, 0.1, 0.7]), "lambda_W": jnp.array([0.9, 1.1, 0.4])}

    @jax.jit
    def total(parameters):
        net = fw.MLP((4, 4), name, **{k: v for k, v in parameters.items() if k != "x1"})
        return jnp.sum(jnp.stack(fw.kernels(net, parameters["x1"], x2, terms=8)) * weights)

    gradient = jax.jit(jax.grad(total))(start)
    for key, value in start.items():
        direction = jnp.asarray(rng.normal(size=value.shape))

        def along(step, key=key, value=value, direction=direction):
            return float(total(start | {key: value + step * direction}))

        slope = [(along(h) - along(-h)) / (2 * h) for h in (2e-3, 1e-3)]
        finer = (along(5e-4) - along(-5e-4)) / 1e-3
        once, twice = (4 * slope[1] - slope[0]) / 3, (4 * finer - slope[1]) / 3
        assert_close(jnp.sum(gradient[key] * direction), (16 * twice - once) / 15, DIFFERENCES)


def test_trajectory_is_the_diagonal_of_every_depth(rng):
    x = rng.normal(size=(3, 4))
    rates = {"C_b": 0.1, "C_W": 1.6, "lambda_b": 0.3, "lambda_W": 0.8}
    path = fw.trajectory(fw.MLP((2, 2, 2), "gelu", **rates), x)
    assert path.nngp.shape == (4, 3)
    for depth in range(1, 5):
        found = fw.kernels(fw.MLP((2,) * (depth - 1), "gelu", **rates), x)
        assert_close(path.nngp[depth - 1], np.diag(found.nngp))
        assert_close(path.ntk[depth - 1], np.diag(found.ntk))


# Properties. Shapes and series lengths are fixed so that each activation compiles once.

variances = st.floats(0.05, 4.0)
biases = st.floats(0.0, 1.0)
seeds = st.integers(0, 2**32 - 1)
for_several_activations = pytest.mark.parametrize(
    "name", ["relu", "leaky_relu", "erf", "gelu", "cos", "tanh", "elu"]
)
examples = settings(max_examples=15, deadline=None, derandomize=True)


def compute(name, x1, x2=None, **rates):
    return fw.kernels(fw.MLP((4, 4), name, **rates), x1, x2, terms=48)


@for_several_activations
@examples
@given(seed=seeds, C_W=variances, C_b=biases, lambda_b=biases)
def test_symmetric_and_positive_semidefinite(name, seed, C_W, C_b, lambda_b):
    x = np.random.default_rng(seed).normal(size=(6, 3))
    x[5] = -x[0]
    for kernel in compute(name, x, C_b=C_b, C_W=C_W, lambda_b=lambda_b):
        kernel = np.asarray(kernel)
        assert (kernel == kernel.T).all()
        eigenvalues = np.linalg.eigvalsh(kernel)
        # The diagonal is exact and the rest is a truncated series: it may miss by its accuracy.
        slack = CLOSED_FORM if as_activation(name).closed_form else 1e-4
        assert eigenvalues[0] >= -slack * eigenvalues[-1]


@for_several_activations
@examples
@given(seed=seeds, C_W=variances, C_b=biases)
def test_permuting_inputs_permutes_the_kernel(name, seed, C_W, C_b):
    rng = np.random.default_rng(seed)
    x, order = rng.normal(size=(6, 3)), rng.permutation(6)
    straight, permuted = compute(name, x, C_b=C_b, C_W=C_W), compute(name, x[order], C_b=C_b, C_W=C_W)
    tolerance = ROUNDING["float64"] + kink_rounding(fw.MLP((4, 4), name, C_b=C_b, C_W=C_W), x)
    for a, b in zip(straight, permuted, strict=True):
        assert_close(b, a[np.ix_(order, order)], tolerance)


def kink_rounding(net, x):
    r"""Digits that a kinked series loses, relative to the kernels: zero without a kink or with a closed form.

    Jumps $J_m$ of the m-th derivatives add tails of the size $J_mJ_nq^{(m+n)/2}$ times the difference of
    $E[f_mf_n]$ and its first orders, the ramps $f_m=u^m/m!$ being paired where m + n is even. Both sides of
    the comparison round the numbers that cancel there to half a unit in the last place. Of the slope
    average, which is at most of order one, the ramps lose an order each and q is divided out. The layers'
    relative errors add up, since the kernels of the next layer grow at most in proportion.
    """
    if net.activation.closed_form:
        return 0.0
    jumps = shape_at_zero(net.activation.function).jumps
    K = np.asarray(trajectory(net, x).nngp).max(axis=1)
    pairs = [(m, n) for m in range(1, len(jumps) + 1) for n in range(1, len(jumps) + 1) if (m + n) % 2 == 0]
    lost = 0.0
    for l, q in enumerate(K[:-1]):
        average = (K[l + 1] - float(net.C_b[l + 1])) / float(net.C_W[l + 1])
        sizes = [abs(jumps[m - 1] * jumps[n - 1]) * q ** ((m + n) / 2) for m, n in pairs]
        value = sum(s * ramp_moment(m, n) for s, (m, n) in zip(sizes, pairs, strict=True))
        slope = sum(s * ramp_moment(m - 1, n - 1) for s, (m, n) in zip(sizes, pairs, strict=True))
        lost += max(value / average, slope / q)
    return float(np.finfo(float).eps) * lost


def ramp_moment(m, n):
    """E[u^(m+n); u > 0] / (m! n!), the average of two ramps of the same variable."""
    power = m + n
    moment = 2 ** (power / 2 - 1) * math.gamma((power + 1) / 2) / math.sqrt(math.pi)
    return moment / (math.factorial(m) * math.factorial(n))


def test_the_rounding_of_a_kink_grows_as_its_highest_power_of_the_variance():
    """Five jumps give q^5 over an average of order q; smooth and closed forms lose nothing."""
    x = np.array([[1.0, -0.5, 2.0]])
    wide = {C_W: kink_rounding(fw.MLP((4,), "elu", C_b=0.0, C_W=C_W), x) for C_W in (200.0, 400.0)}
    assert wide[400.0] / wide[200.0] == pytest.approx(2**4, rel=0.1)
    assert kink_rounding(fw.MLP((4,), "elu", C_b=0.0, C_W=0.1), x) < ROUNDING["float64"]
    for name in ("relu", "tanh", "gelu"):
        assert kink_rounding(fw.MLP((4, 4), name, C_b=0.0, C_W=4.0), x) == 0.0


@for_several_activations
@examples
@given(seed=seeds, C_W=variances, C_b=biases)
def test_rotating_inputs_changes_nothing(name, seed, C_W, C_b):
    rng = np.random.default_rng(seed)
    x, rotation = rng.normal(size=(6, 3)), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    straight, rotated = compute(name, x, C_b=C_b, C_W=C_W), compute(name, x @ rotation, C_b=C_b, C_W=C_W)
    for a, b in zip(straight, rotated, strict=True):
        assert_close(b, a, CLOSED_FORM)


@pytest.mark.parametrize(
    ("name", "degree"), [("relu", 1), ("leaky_relu:0.3", 1), ("abs", 1), ("linear", 1), ("monomial:2", 2)]
)
@examples
@given(seed=seeds, scale=st.floats(1e-3, 1e3), C_W=variances)
def test_homogeneous_activations_scale(name, degree, seed, scale, C_W):
    """sigma(a z) = a^p sigma(z) without biases: two hidden layers scale kernels by a^(2 p^2)."""
    x = np.random.default_rng(seed).normal(size=(6, 3))
    rates = {"C_b": 0.0, "C_W": C_W, "lambda_b": 0.0}
    base, scaled = compute(name, x, **rates), compute(name, scale * x, **rates)
    for a, b in zip(base, scaled, strict=True):
        assert_close(b, scale ** (2 * degree**2) * a)


@for_several_activations
@examples
@given(seed=seeds, C_W=variances, factor=st.floats(0.1, 10.0))
def test_the_tangent_kernel_is_linear_in_the_learning_rates(name, seed, C_W, factor):
    x = np.random.default_rng(seed).normal(size=(6, 3))
    rates = {"C_b": 0.2, "C_W": C_W}
    bias = compute(name, x, **rates, lambda_b=1.0, lambda_W=0.0)
    weight = compute(name, x, **rates, lambda_b=0.0, lambda_W=1.0)
    both = compute(name, x, **rates, lambda_b=1.0, lambda_W=factor)
    assert_close(both.ntk, bias.ntk + factor * weight.ntk)
    assert_close(both.nngp, bias.nngp)


def test_bad_inputs_get_one_clear_sentence():
    net = fw.MLP((4,), "relu")
    good = np.ones((2, 3))
    for x, words in [
        (np.ones(3), r"x1 must have shape \(points, features\), got \(3,\).*reshape it to \(3, 1\)"),
        (np.ones((2, 2, 2)), r"x1 must have shape"),
        (np.ones((0, 3)), r"x1 is empty: its shape is \(0, 3\)"),
        (np.ones((3, 0)), r"x1 is empty"),
        (
            np.array([[1.0, 2.0], [np.nan, 0.0]]),
            r"x1 holds NaN or infinite values in 1 of 2 rows, first in row 1",
        ),
        (
            np.array([[np.inf, 2.0], [-np.inf, 0.0]]),
            r"x1 holds NaN or infinite values in 2 of 2 rows, first in row 0",
        ),
        (np.array([[1.0, 2.0], [0.0, 0.0]]), r"x1 has a zero vector in row 1 \(1 in all\).*C_b > 0"),
        (np.ones((2, 2)) * 1j, r"x1 must be real"),
        ([[1.0, 2.0], [3.0]], r"x1 is not an array of numbers"),
    ]:
        with pytest.raises(ValueError, match=words):
            fw.kernels(net, x)
    with pytest.raises(ValueError, match=r"x1 has 3 features and x2 has 2; they must agree"):
        fw.kernels(net, good, np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"x2 holds NaN"):
        fw.kernels(net, good, np.full((1, 3), np.nan))
    with pytest.raises(ValueError, match=r"tolerance must be a positive number, got 0"):
        fw.kernels(fw.MLP((4,), "tanh"), good, tolerance=0.0)


def test_a_zero_input_is_fine_with_a_bias():
    x = np.array([[0.0, 0.0], [1.0, 2.0]])
    nngp, _ = fw.kernels(fw.MLP((), "relu", C_b=0.5, C_W=1.0), x)
    assert_close(nngp, [[0.5, 0.5], [0.5, 3.0]])
