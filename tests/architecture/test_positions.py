"""Real layers with positions against NumPy, and the shapes they refuse."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tolerances import assert_close

import finitewidth as fw

KEY = jax.random.key(0)


def taps(size: int, window: int, stride: int, padding: str) -> list[list[int | None]]:
    """Input position under every tap of every window along one axis, None on zero padding."""
    if padding == "VALID":
        count, low = (size - window) // stride + 1, 0
    else:
        count = -(-size // stride)
        low = max((count - 1) * stride + window - size, 0) // 2
    at = lambda q: q % size if padding == "CIRCULAR" else (q if 0 <= q < size else None)
    return [[at(p * stride + d - low) for d in range(window)] for p in range(count)]


@pytest.mark.parametrize(
    ("strides", "padding"), [((1, 1), "SAME"), ((2, 1), "VALID"), ((2, 3), "CIRCULAR"), ((3, 2), "SAME")]
)
def test_convolution_and_pooling_are_sums_under_their_windows(strides, padding):
    x = np.random.default_rng(1).normal(size=(2, 5, 6, 3))
    layer = fw.Conv(4, (3, 2), strides, padding, 0.2, 1.5)
    params = layer.init(KEY, x.shape[1:])
    weight, bias = np.asarray(params.weight).reshape(4, 3, 2, 3), np.asarray(params.bias)
    rows, columns = (taps(n, w, t, padding) for n, w, t in zip((5, 6), (3, 2), strides, strict=True))
    conv, pool = np.zeros((2, len(rows), len(columns), 4)), np.zeros((2, len(rows), len(columns), 3))
    for p, row in enumerate(rows):
        for q, column in enumerate(columns):
            conv[:, p, q] = bias
            for i, a in enumerate(row):
                for j, b in enumerate(column):
                    if a is not None and b is not None:
                        conv[:, p, q] += x[:, a, b] @ weight[:, i, j].T
                        pool[:, p, q] += x[:, a, b] / 6
    assert layer.leaving(x.shape[1:]) == conv.shape[1:]
    assert_close(layer.apply(params, jnp.asarray(x)), conv)
    assert_close(fw.AveragePool((3, 2), strides, padding).apply((), jnp.asarray(x)), pool)


@pytest.mark.parametrize("kind", ["softmax", "identity"])
@pytest.mark.parametrize("scaling", ["sqrt", "linear", "linear-untied"])
def test_attention_is_its_formula(kind, scaling):
    x = np.random.default_rng(2).normal(size=(2, 5, 3))
    layer = fw.SelfAttention(6, 2, 4, kind, scaling, 0.3)
    params = layer.init(KEY, (5, 3))
    expected = np.zeros((2, 5, 6)) + np.asarray(params.output.bias)
    for h in range(2):
        part = slice(4 * h, 4 * h + 4)
        query, value = (x @ np.asarray(m)[part].T for m in (params.query, params.value))
        key = query if scaling == "linear" else x @ np.asarray(params.key)[part].T
        scores = np.einsum("nid,njd->nij", query, key) / (2.0 if scaling == "sqrt" else 4.0)
        if kind == "softmax":
            scores = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
        expected += scores @ value @ np.asarray(params.output.weight)[:, part].T
    assert_close(layer.apply(params, jnp.asarray(x)), expected)
    assert isinstance(params.key, tuple) == (scaling == "linear")


@pytest.mark.parametrize("parametrisation", ["ntk", "standard", "mean-field", "mup:4"])
def test_a_window_over_the_whole_image_is_a_dense_layer_of_all_pixels(parametrisation):
    conv = (fw.Conv(5, (2, 3), 1, "VALID", 0.1, 1.5, 0.7, 1.1), fw.Flatten())
    dense = (fw.Flatten(), fw.Dense(5, 0.1, 1.5, 0.7, 1.1))
    rest = (fw.Activate("tanh"), fw.Dense(2, 0.2, 1.2, 0.3, 0.9))
    written = (conv[0], rest[0], conv[1], rest[1]), (*dense, *rest)
    nets = [fw.Sequential(*layers, parametrisation=parametrisation) for layers in written]
    x = jax.random.normal(KEY, (4, 2, 3, 2))
    drawn = [net.init(KEY, (2, 3, 2)) for net in nets]
    assert_close(nets[0].apply(drawn[0], x), nets[1].apply(drawn[1], x))
    for geometry in ("gradient", "entrywise", "spectral"):
        rates = [np.array(jax.tree.leaves(net.learning_rates((2, 3, 2), geometry))) for net in nets]
        assert_close(rates[0], rates[1])


def test_attention_has_the_variances_and_rates_of_its_matrices():
    layer = fw.SelfAttention(64, 8, 16, "softmax", "sqrt", 0.5, 2.0, 9.0, 0.1, 0.2, 0.3)
    params, rates = layer.init(KEY, (3, 256)), layer.learning_rates((3, 256))
    for matrix, variance in (
        (params.query, 2.0 / 256),
        (params.key, 2.0 / 256),
        (params.value, 3.0 / 256),
        (params.output.weight, 3.0 / 128),
        (params.output.bias, 0.5),
    ):
        # A sample variance of n entries has the relative error sqrt(2/n).
        assert abs(float(jnp.mean(matrix**2)) / variance - 1) < 4 * (2 / matrix.size) ** 0.5
    assert_close(
        np.array(jax.tree.leaves(rates)), np.array([0.2 / 256, 0.2 / 256, 0.3 / 256, 0.3 / 128, 0.1])
    )
    standard = fw.Sequential(layer, parametrisation="standard").learning_rates((3, 256))
    assert_close(np.array(jax.tree.leaves(standard)), np.array([0.2, 0.2, 0.3, 0.3, 0.1]))


def test_networks_with_positions_travel_as_data_and_in_files(tmp_path):
    nets = (
        fw.ConvNet((4, 6), (3, 3), "tanh", strides=2, padding="CIRCULAR", head="flatten", n_out=2),
        fw.ResNet((4, 8), 2, norm=fw.LayerNorm()),
        fw.Transformer(2, 8, 4, kind="identity", scaling="sqrt"),
        fw.Sequential(fw.Conv(4, 3, 2), fw.AveragePool(2), fw.Activate("relu"), fw.Flatten(), fw.Dense(1)),
    )
    for net in nets:
        assert fw.network(net.spec).spec == net.spec
        net.save(tmp_path / "net.npz")
        assert eqx.tree_equal(fw.load(tmp_path / "net.npz"), net)


def test_the_presets_have_the_shapes_they_promise():
    x = jnp.ones((2, 6, 6, 3))
    for net in (fw.ConvNet((4, 5), n_out=3), fw.ResNet((4, 8), 2, n_out=3)):
        assert net.apply(net.init(KEY, (6, 6, 3)), x).shape == (2, 3)
    stages = fw.ResNet((4, 8, 16), 3)
    assert [float(layer.beta) for layer in stages.layers if isinstance(layer, fw.Residual)] == [1 / 3] * 2
    assert stages.leaving((8, 8, 3)) == (1,)
    assert fw.Sequential(*stages.layers[:-2]).leaving((8, 8, 3)) == (2, 2, 16)
    net = fw.Transformer(2, 8, 4, scaling="sqrt")
    assert net.apply(net.init(KEY, (5, 3)), jnp.ones((2, 5, 3))).shape == (2, 1)
    assert float(net.layers[1].layer.layers[0].beta) == 0.5


IMAGE = jnp.ones((2, 4, 4, 2))


def conv(*arguments):
    return fw.Sequential(fw.Conv(3, *arguments), fw.Flatten(), fw.Dense(1))


@pytest.mark.usefixtures("unchecked_annotations")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fw.Conv(3, (3, 3), padding="REFLECT"), "one of SAME, VALID, CIRCULAR, got 'REFLECT'"),
        (lambda: fw.Conv(3, (3, 3), (1, 2, 3)), r"strides \(1, 2, 3\) must be one number or as many as"),
        (lambda: fw.Conv(3, (0, 3)), r"window must hold positive whole numbers, got \(0, 3\)"),
        (lambda: fw.Conv(3, (1, 1, 1, 1)), r"window \(1, 1, 1, 1\) has 4 axes"),
        (lambda: fw.Conv(3, 3, C_W=1.0), "C_W was given without C_b"),
        (lambda: fw.SelfAttention(6, 4), "heads=4 does not divide width=6"),
        (lambda: fw.SelfAttention(6, 2, kind="relu"), "kind must be one of softmax, identity, got 'relu'"),
        (lambda: fw.SelfAttention(6, 2, scaling="d"), "scaling must be one of sqrt, linear, linear-untied"),
        (lambda: fw.ConvNet(()), "channels must hold one number per convolution, got none"),
        (lambda: fw.ConvNet((4,), head="max"), 'head must be "pool" or "flatten", got \'max\''),
        (
            lambda: fw.kernels(conv((3, 3)), IMAGE[:, 0]),
            r"layer 0: Conv has a window of 2 axes, \(3, 3\), and needs inputs .* got \(4, 2\)",
        ),
        (
            lambda: fw.kernels(conv((3, 3), 5), IMAGE),
            r"Conv has the strides \(5, 5\), larger than its inputs, which have positions \(4, 4\)",
        ),
        (
            lambda: fw.kernels(conv((5, 3), 1, "VALID"), IMAGE),
            r"Conv has the window \(5, 3\), larger than its inputs, which have positions \(4, 4\)",
        ),
        (
            lambda: fw.kernels(fw.MLP((4,), "relu"), IMAGE),
            r"for an MLP, got \(2, 4, 4, 2\): use fw.Sequential",
        ),
        (
            lambda: fw.kernels(fw.Sequential(fw.Dense(4), fw.Activate("relu"), fw.Dense(1)), IMAGE),
            r"turns them into \(4, 4, 1\), outputs at every position: put Flatten\(\)",
        ),
        (
            lambda: fw.GlobalAveragePool().leaving((3,)),
            r"needs inputs \(\*positions, channels\); got \(3,\)",
        ),
        (lambda: fw.SelfAttention(6, 2).leaving((4, 4, 3)), r"shape \(tokens, channels\); got \(4, 4, 3\)"),
        (
            lambda: conv((3, 3)).apply(conv((3, 3)).init(KEY, (4, 4, 2)), IMAGE[..., :1]),
            r"a Conv layer got inputs of shape \(4, 4, 1\); its weight, \(3, 18\), takes 2 channels",
        ),
        (
            lambda: fw.kernels(conv((3, 3)), IMAGE, IMAGE[:, :3]),
            r"of shape \(4, 4, 2\) and x2 of \(3, 4, 2\)",
        ),
        (
            lambda: fw.network([{"layer": "Conv"}]),
            r"layer 0 \(Conv\): window must hold positive whole numbers",
        ),
        (
            lambda: fw.kernels(fw.Transformer(1, 8, 4, scaling="sqrt"), IMAGE[:, 0]),
            "random logits at any width, and no kernel in closed form is known",
        ),
        (
            lambda: fw.kernels(
                fw.Transformer(1, 8, 4, kind="identity", scaling="linear-untied"), IMAGE[:, 0]
            ),
            "hands nothing on in wide networks",
        ),
        (
            lambda: fw.predict(conv((3, 3)), IMAGE.at[0, 0, 0, 0].set(2.0), [0.0, 1.0], IMAGE, order=1),
            "known for dense layers with an activation between each two",
        ),
        (
            lambda: fw.kernels(
                fw.Sequential(fw.Conv(3, (3, 3)), fw.Flatten(), fw.Activate("relu"), fw.Dense(1)), IMAGE
            ),
            "stands behind Flatten, whose channels are not Gaussian",
        ),
    ],
)
def test_layers_and_inputs_that_do_not_fit(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()
