"""Residual networks at order 1/width: the limit without a skip, the rule, and the sentences."""

import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.expectations.two_layers import plane_rule
from tolerances import SERIES, TENSORS_OF_SERIES, assert_close

LETTERS = ("K", "Theta", "V", "D", "F", "A", "B")


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("x", [[[0.8]], [[1.0, 0.3], [-0.4, 1.2], [0.5, 0.6]]], ids=["one", "three"])
def test_without_the_skip_it_is_a_stack_of_dense_layers(activation, x):
    """Every hyperparameter differs from one; the recursion of layered networks is another derivation."""
    settings = {"lambda_b": 0.5, "lambda_W": 0.9}
    net = fw.ResidualMLP(3, 32, activation, alpha=0.0, beta=1.0, C_b=0.2, C_W=1.3, **settings)
    dense = fw.MLP((32,) * 4, activation, [0.0, 0.2, 0.2, 0.2, 0.0], [1.0, 1.3, 1.3, 1.3, 1.3], **settings)
    ours, theirs = fw.corrections(net, x), fw.corrections(dense, x)
    for letter in LETTERS:
        assert_close(getattr(ours, letter), getattr(theirs, letter), TENSORS_OF_SERIES)


def test_kernels_are_those_of_infinite_width():
    net = fw.ResidualMLP(6, 16, "tanh", alpha=0.9, beta=0.7, C_b=0.1, C_W=1.2, lambda_b=0.3, lambda_W=0.8)
    x = np.array([[0.5, -1.0]])
    tensors, kernels = fw.corrections(net, x), fw.kernels(net, x)
    assert_close(tensors.K, kernels.nngp, SERIES)
    assert_close(tensors.Theta, kernels.ntk, SERIES)


def test_a_linear_network_with_one_block_by_hand():
    """f = w.(alpha + beta W) z: |z|^2 varies by 2/n, and W adds 4 alpha^2 beta^2 + 2 beta^4."""
    alpha, beta = 0.8, 0.6
    net = fw.ResidualMLP(1, 50, "linear", alpha=alpha, beta=beta, C_b=0.0, C_W=1.0)
    t = fw.corrections(net, [[1.0]])
    total = alpha**2 + beta**2
    assert_close(t.K.item(), total)
    assert_close(t.V.item(), 2 * total**2 + 4 * alpha**2 * beta**2 + 2 * beta**4, SERIES)


def test_a_linear_network_with_one_block_at_several_inputs_by_hand():
    """J = alpha + beta W has (1/n) tr JJ^T = x and (1/n) tr (JJ^T)^2 = y, up to fluctuations of order 1/n.

    With Phi = (1/n) z_1 J^T J z_2 and the kernel Theta JJ^T + own of the last hidden layer, all tensors are
    traces.
    """
    alpha, beta, C, C_o = 0.8, 0.6, 1.4, 1.7
    (l_b, l_1), (l_B, l_W), (l_o, l_O) = (0.3, 0.8), (0.4, 0.9), (0.5, 0.7)
    line = fw.Activate("linear")
    net = fw.Sequential(
        fw.Dense(50, 0.0, 1.2, l_b, l_1),
        fw.Residual(line, fw.Dense(50, 0.0, C, l_B, l_W), alpha=alpha, beta=beta),
        line,
        fw.Dense(1, 0.0, C_o, l_o, l_O),
    )
    points = np.array([[1.0, 0.3], [-0.4, 1.2], [0.5, 0.6]])
    gram = points @ points.T / 2
    t = fw.corrections(net, points)
    x = alpha**2 + beta**2 * C
    y = x**2 + 2 * alpha**2 * beta**2 * C + beta**4 * C**2
    K, Theta = 1.2 * gram, l_b + l_1 * gram
    own, rate = beta**2 * (l_B + l_W * K), C_o * beta**2 * l_W
    pairs = np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
    crossed = lambda left, right: np.einsum("ab,cd->acbd", left, right)
    assert_close(t.K, C_o * x * K, SERIES)
    assert_close(t.Theta, l_o + l_O * x * K + C_o * (x * Theta + own), SERIES)
    assert_close(t.V, C_o**2 * y * pairs, SERIES)
    assert_close(t.D, C_o * (l_O * y + rate * x) * pairs, SERIES)
    assert_close(t.A, (l_O**2 * y + 2 * l_O * rate * x + rate**2) * pairs, SERIES)
    assert_close(t.F, C_o**2 * crossed(K, y * Theta + x * own), SERIES)
    both = y * crossed(Theta, Theta) + x * (crossed(Theta, own) + crossed(own, Theta)) + crossed(own, own)
    assert_close(t.B, C_o**2 * both, SERIES)
    variance = np.einsum("abab->ab", t.A) + np.einsum("aabb->ab", t.B) + np.einsum("abba->ab", t.B)
    assert_close(50 * t.ntk_variance, variance)


def test_blocks_of_a_linear_network_one_by_one_in_the_product():
    """V of any number of blocks, from the powers of x = alpha^2 + beta^2.

    Given what enters, a block multiplies the mean square by x and adds y - x^2 of its square as a variance.
    """
    alpha, beta, blocks = 0.8, 0.6, 3
    net = fw.ResidualMLP(blocks, 50, "linear", alpha=alpha, beta=beta, C_b=0.0, C_W=1.0)
    x = alpha**2 + beta**2
    extra = 2 * alpha**2 * beta**2 + beta**4
    expected = 2 * x ** (2 * blocks) * (1 + blocks * extra / x**2)
    for points in ([[1.0]], [[1.0, 1.0], [1.0, 1.0]]):
        assert_close(fw.corrections(net, points).V.ravel()[0], expected, SERIES)


def test_two_inputs_by_backward_fields():
    """One block, the whole trajectory on a grid of four dimensions, and the fields that go backwards."""
    alpha, beta, C, C_o, rates = 0.8, 0.7, 1.3, 1.6, (0.4, 0.9)
    neurons = fw.Activate(lambda z: jnp.sin(z) + 0.6 * jnp.cos(z))
    net = fw.Sequential(
        fw.Dense(20, 0.1, 0.8, *rates),
        fw.Residual(neurons, fw.Dense(20, 0.2, C, *rates), alpha=alpha, beta=beta),
        neurons,
        fw.Dense(1, 0.0, C_o, *rates),
    )
    points = np.array([[1.0, 0.3], [-0.4, 1.2]])
    t = fw.corrections(net, points)
    l_b, l_W = rates
    gram = points @ points.T / 2
    K1, Theta1 = 0.1 + 0.8 * gram, l_b + l_W * gram
    nodes, weights = np.polynomial.hermite_e.hermegauss(22)
    u = np.stack(np.meshgrid(*(nodes,) * 4, indexing="ij")).reshape(4, -1)
    w = np.prod(np.meshgrid(*(weights / weights.sum(),) * 4, indexing="ij"), axis=0).ravel()
    mean = lambda *factors: np.einsum(",".join(["...z"] * len(factors)) + ",z->...", *factors, w)
    derivatives = lambda z: [np.sin(z + k * np.pi / 2) + 0.6 * np.cos(z + k * np.pi / 2) for k in range(4)]
    two = lambda left, right: left[:, None] * right[None]
    first = derivatives(np.linalg.cholesky(K1) @ u[:2])
    K2 = alpha**2 * K1 + beta**2 * (0.2 + C * mean(two(first[0], first[0])))
    z1 = np.linalg.cholesky(K1) @ u[:2]
    s1, s2 = first, derivatives(alpha * z1 + np.linalg.cholesky(K2 - alpha**2 * K1) @ u[2:])

    def moved(k, s, order):
        """Half the sum of second derivatives of <s_1 s_2>, or of two slopes, times a change of K."""
        own = np.einsum("aaz->az", k)
        bend = mean(two(s[order + 2], s[order]))[..., None]
        return (
            bend / 2 * own[:, None]
            + bend.swapaxes(0, 1) / 2 * own
            + mean(two(s[order + 1], s[order + 1]))[..., None] * k
        )

    centred = lambda f: f - mean(f)[..., None]
    phi1 = centred(two(s1[0], s1[0]))
    k2 = beta**2 * C * phi1
    phi2 = centred(two(s2[0], s2[0])) + moved(k2, s2, 0)
    slopes1, slopes2 = two(s1[1], s1[1]), two(s2[1], s2[1])
    h1, Psi2 = mean(slopes1), C_o * mean(slopes2)
    S2 = C_o * slopes2
    S1 = beta**2 * C * Psi2[..., None] * slopes1 + alpha**2 * S2
    psi2 = centred(S2) + C_o * moved(k2, s2, 1)
    psi1 = centred(S1) + beta**2 * C * h1[..., None] * psi2 + alpha**2 * C_o * moved(k2, s2, 1)
    own = beta**2 * (l_b + l_W * mean(two(s1[0], s1[0])))
    h = l_W * phi2 + beta**2 * l_W * Psi2[..., None] * phi1 + own[..., None] * psi2 + Theta1[..., None] * psi1
    product = lambda left, right: np.einsum("abz,cdz,z->abcd", left, right, w)
    assert_close(t.V, C_o**2 * product(phi2, phi2), TENSORS_OF_SERIES)
    assert_close(t.D, C_o * product(phi2, h), TENSORS_OF_SERIES)
    assert_close(t.A, product(h, h), TENSORS_OF_SERIES)
    on1, on2 = Theta1, own + beta**2 * C * Theta1 * h1
    sources = {(1, 1): product(S1, S1), (1, 2): alpha**2 * product(S2, S2), (2, 2): product(S2, S2)}
    B = sum(
        np.einsum("ab,cd,acbd->acbd", left, right, sources[min(l, m), max(l, m)])
        for l, left in ((1, on1), (2, on2))
        for m, right in ((1, on1), (2, on2))
    )
    assert_close(t.B, B, TENSORS_OF_SERIES)
    field = two(s2[0], s2[1])
    met = beta * mean(slopes2)[..., None], beta * mean(two(s2[0], s2[2]))[..., None]
    back = s1[1] * (met[0] * s1[0][:, None] + met[1] * s1[0])
    N2 = product(field, field)
    lower = alpha * field + beta * C * back
    N1 = product(lower, lower) + beta**2 * C * h1[:, None, :] * N2
    F = C_o**2 * (own[:, None, :] * N2 + Theta1[:, None, :] * N1)
    assert_close(t.F, F, TENSORS_OF_SERIES)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_each_of_several_inputs_is_that_input_alone(activation):
    """Averages of four numbers against those of two; and the symmetries of the labels."""
    neurons = fw.Activate(activation)
    net = fw.Sequential(
        fw.Dense(16, 0.1, 1.2),
        fw.Repeat(fw.Residual(neurons, fw.Dense(16, 0.1, 1.5, 0.4, 0.9), alpha=0.8, beta=0.7), 2),
        neurons,
        fw.Dense(16, 0.2, 1.1),
        neurons,
        fw.Dense(1, 0.0, 1.3),
    )
    x = np.array([[1.0, 0.3], [-0.4, 1.2]])
    both = fw.corrections(net, x)
    other = fw.corrections(net, x[::-1])
    for letter in LETTERS:
        tensor = np.asarray(getattr(both, letter))
        assert_close(np.flip(getattr(other, letter)), tensor, TENSORS_OF_SERIES)
        for a in range(2):
            alone = getattr(fw.corrections(net, x[a : a + 1]), letter).item()
            assert_close(tensor[(a,) * tensor.ndim], alone, TENSORS_OF_SERIES)
    for letter in "VA":
        tensor = getattr(both, letter)
        for order in ((2, 3, 0, 1), (1, 0, 2, 3)):
            assert_close(tensor.transpose(order), tensor, TENSORS_OF_SERIES)
    assert_close(both.D.transpose(0, 1, 3, 2), both.D, TENSORS_OF_SERIES)
    assert_close(both.F.transpose(2, 3, 0, 1), both.F, TENSORS_OF_SERIES)
    for order in ((2, 3, 0, 1), (1, 0, 3, 2)):
        assert_close(both.B.transpose(order), both.B, TENSORS_OF_SERIES)


def test_blocks_one_by_one_are_blocks_repeated():
    x = np.array([[1.0, 0.3], [-0.4, 1.2]])
    block = fw.Residual(fw.Activate("relu"), fw.Dense(9, 0.1, 1.5), alpha=0.8, beta=0.7)
    around = fw.Dense(9, 0.1, 1.2), (fw.Activate("relu"), fw.Dense(1, 0.0, 2.0))
    repeated = fw.corrections(fw.Sequential(around[0], fw.Repeat(block, 3), *around[1]), x)
    listed = fw.corrections(fw.Sequential(around[0], block, block, block, *around[1]), x)
    for letter in LETTERS:
        assert_close(getattr(repeated, letter), getattr(listed, letter))


def test_one_over_root_depth_stops_the_growth_with_depth():
    """Relative fluctuations of 8 and 64 blocks: 14.2 and 15.7 for ReLU instead of a factor of eight."""
    ratio = {}
    for blocks in (8, 64):
        t = fw.corrections(fw.ResidualMLP(blocks, 100, "relu", C_b=0.0, C_W=2.0), [[1.0]])
        ratio[blocks] = t.V.item() / t.K.item() ** 2
    assert ratio[64] / ratio[8] < 1.15
    assert_close(ratio[64], 15.7, 0.005)


def test_the_rule_averages_kinked_functions_of_two_numbers():
    """Both positive: 1/4 + arcsin(rho)/2 pi; and a smooth average that a series gives."""
    rho = np.array([-0.9, 0.0, 0.3, 1.0])
    u, v, w = plane_rule(rho)
    assert_close(np.sum(w, axis=1), np.ones(4))
    assert_close(np.sum(w * (u > 0) * (v > 0), axis=1), 0.25 + np.arcsin(rho) / (2 * np.pi))
    assert_close(np.sum(w * (u**2 - 1) * (v**2 - 1), axis=1), 2 * rho**2, scale=1.0)


def test_what_is_not_known_is_refused_in_one_sentence():
    net = fw.ResidualMLP(2, 8, "tanh")
    with pytest.raises(ValueError, match=r"x has 40 points; with 2 blocks .* limited to 25"):
        fw.corrections(net, np.ones((40, 2)))
    with pytest.raises(ValueError, match="jumps by 1 at zero"):
        fw.corrections(fw.ResidualMLP(2, 8, "step", C_b=0.0, C_W=1.0), np.ones((1, 2)))
    with pytest.raises(ValueError, match="known for dense layers with an activation between each two"):
        fw.corrections(fw.ResidualMLP(2, 8, "tanh", norm=fw.LayerNorm()), np.ones((1, 2)))
    x = np.array([[1.0], [-0.5], [0.3]])
    with pytest.raises(ValueError, match="known for dense layers with an activation between each two"):
        fw.predict(net, x, x, x, order=1)
