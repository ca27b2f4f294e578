"""What only PyTorch has: modules that write in place, tensors in any order, state that must not change."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from finitewidth.measure.specimen import specimen
from finitewidth.measure.torch.sites import look
from tolerances import ROUNDING, assert_close

RNG = np.random.default_rng(8)
IMAGES = RNG.normal(size=(6, 2, 6, 6)).astype(np.float32)
SEQUENCES = RNG.normal(size=(6, 3, 8)).astype(np.float32)
U = RNG.normal(size=(6, 3)).astype(np.float32)


class Residual(torch.nn.Module):
    """A convolutional network with a skip, all of it in place or none of it."""

    def __init__(self, *, in_place):
        super().__init__()
        self.in_place = in_place
        self.relu = torch.nn.ReLU(inplace=in_place)
        self.first, self.norm = torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4)
        self.second, self.hidden = torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Linear(64, 8)
        self.weight, self.bias = torch.nn.Parameter(torch.randn(3, 8)), torch.nn.Parameter(torch.randn(3))

    def forward(self, x):
        h = self.relu(self.norm(self.first(x)))
        branch = self.second(h)
        if self.in_place:
            branch += h
        else:
            branch = branch + h
        h = self.hidden(self.relu(branch).flatten(1))
        h = h.tanh_() if self.in_place else torch.tanh(h)
        return h @ self.weight.T + self.bias


def residual(**settings):
    torch.manual_seed(1)
    model = Residual(**settings)
    with torch.no_grad():
        model.norm.running_mean += 0.3
        model.norm.running_var *= 2
        model.norm.weight += torch.randn(4) / 3
    return model.eval()


def test_in_place_is_the_same_as_out_of_place():
    there, here = (specimen(residual(in_place=value), IMAGES).look(U) for value in (False, True))
    assert [(site.name, site.kind, site.activation) for site in there] == [
        ("first", "convolution", "relu"),
        ("second", "convolution", "relu"),
        ("hidden", "dense", "tanh"),
        ("weight", "dense", None),
    ]
    for one, other in zip(there, here, strict=True):
        assert one[:2] == other[:2]
        assert one.activation == other.activation
        for part in ("entering", "leaving", "gradient", "into_activation"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


def test_what_enters_an_activation_after_a_norm_or_a_sum():
    model = residual(in_place=True)
    first, second, _, last = specimen(model, IMAGES).look(U)
    with torch.no_grad():
        normal = model.norm(model.first(torch.as_tensor(IMAGES)))
        summed = model.second(normal.relu()) + normal.relu()
    assert_close(first.into_activation, normal.permute(0, 2, 3, 1).numpy())
    assert_close(second.into_activation, summed.permute(0, 2, 3, 1).numpy())
    assert_close(last.leaving, specimen(model, IMAGES).outputs())


def test_gradients_against_differences():
    """The bias of each layer is added to what leaves it, so that its slope is the sum of what flows back."""
    model = residual(in_place=True).double()
    measured = specimen(model, IMAGES)
    u = U.astype(float)
    for site, bias in zip(measured.look(u), ("first", "second", "hidden", None), strict=True):
        place = measured.groups["bias" if bias is None else f"{bias}.bias"][0]
        for unit in range(place.stop - place.start):
            step = np.zeros(len(measured.weights))
            step[place.start + unit] = 1e-6
            ahead, behind = (measured.at(measured.weights + sign * step).outputs() for sign in (1, -1))
            slope = np.sum(u * (ahead - behind)) / 2e-6
            assert abs(site.gradient[..., unit].sum() - slope) < 1e-7 * max(1.0, abs(slope))


def test_the_module_is_left_as_it_was():
    model = residual(in_place=True).train()
    model.norm.momentum = 0.5
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fast = torch.backends.mha.get_fastpath_enabled()
    x = torch.as_tensor(IMAGES)
    look(model, dict(model.named_parameters()), x, U)
    with pytest.raises(RuntimeError, match="channels"):
        look(model, dict(model.named_parameters()), x[:, :1], U)
    assert model.training
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert not any(part._forward_hooks or part._backward_hooks for part in model.modules())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert all(weight.grad is None for weight in model.parameters())


def test_other_weights():
    model, other = residual(in_place=False), residual(in_place=False)
    with torch.no_grad():
        for tensor in other.state_dict().values():
            tensor += 0.1 if tensor.is_floating_point() else 0
    given = specimen(model, IMAGES, params=other.state_dict()).look(U)
    own = specimen(other, IMAGES).look(U)
    for one, two in zip(given, own, strict=True):
        assert_close(one.leaving, two.leaving)
        assert_close(one.gradient, two.gradient)


class Encoder(torch.nn.Module):
    def __init__(self, *, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.block = torch.nn.TransformerEncoderLayer(8, 2, 5, batch_first=batch_first, dropout=0.0)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        if self.batch_first:
            return self.head(self.block(x).mean(1))
        return self.head(self.block(x.transpose(0, 1)).mean(0))


def test_positions_before_points():
    """The order of the axes inside of a model changes nothing, and the points stand first."""
    torch.manual_seed(0)
    model, other = Encoder(batch_first=True).eval(), Encoder(batch_first=False).eval()
    other.load_state_dict(model.state_dict())
    for one, two in zip(specimen(model, SEQUENCES).look(U), specimen(other, SEQUENCES).look(U), strict=True):
        assert one.name == two.name
        assert len(one.leaving) == len(two.leaving) == 6
        assert_close(two.entering, one.entering)
        assert_close(two.leaving, one.leaving)
        assert_close(two.gradient, one.gradient)


class ByHand(torch.nn.Module):
    """Attention by hand, points merged with positions, and a weight that is computed."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(8, 24, bias=False), torch.nn.Linear(8, 8)
        self.head = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 3))

    def forward(self, x):
        parts = [part.view(-1, 3, 2, 4).transpose(1, 2) for part in self.qkv(x).split(8, dim=2)]
        mixed = F.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(-1, 8)
        return self.head(self.out(mixed)).reshape(-1, 3, 3).sum(1)


def test_attention_by_hand_and_merged_axes():
    sites = specimen(ByHand().eval(), SEQUENCES).look(U)
    assert [site.kind for site in sites] == ["attention", "attention", "dense"]
    assert [site.leaving.shape for site in sites] == [(6, 3, 24), (6, 3, 8), (6, 3, 3)]
    assert sites[2].name.startswith("head.")
    assert_close(sites[2].gradient, np.repeat(U[:, None], 3, axis=1))


class Twin(nn.Module):
    """Convolution, batch norm in eval mode, ReLU, pooling, attention in a residual block, GELU."""

    @nn.compact
    def __call__(self, x):
        h = nn.Conv(4, (3, 3), padding="VALID", name="conv")(x)
        h = nn.relu(nn.BatchNorm(use_running_average=True, name="norm")(h))
        h = nn.max_pool(h, (2, 2), (2, 2)).reshape(len(x), 4, 4)
        h = h + nn.MultiHeadDotProductAttention(2, name="attention")(
            nn.LayerNorm(name="before", epsilon=1e-5)(h)
        )
        h = nn.gelu(nn.Dense(5, name="hidden")(h.reshape(len(x), -1)))
        return nn.Dense(3, name="head")(h)


class TorchTwin(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4)
        self.before = torch.nn.LayerNorm(4)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.hidden, self.head = torch.nn.Linear(16, 5), torch.nn.Linear(5, 3)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm(self.conv(x)), inplace=True), 2)
        h = h.permute(0, 2, 3, 1).reshape(len(x), 4, 4)
        normal = self.before(h)
        h = h + self.attention(normal, normal, normal)[0]
        return self.head(F.gelu(self.hidden(h.flatten(1)), approximate="tanh"))


def to_flax(model):
    """The variables of the twin in Flax with the weights of the twin in PyTorch."""
    own = {name: jnp.asarray(tensor.numpy()) for name, tensor in model.state_dict().items()}
    dense = lambda name: {"kernel": own[f"{name}.weight"].T, "bias": own[f"{name}.bias"]}
    ins, biases = own["attention.in_proj_weight"], own["attention.in_proj_bias"]
    parts = {
        name: {"kernel": weight.T.reshape(4, 2, 2), "bias": bias.reshape(2, 2)}
        for name, weight, bias in zip(
            ("query", "key", "value"), jnp.split(ins, 3), jnp.split(biases, 3), strict=True
        )
    }
    out = dense("attention.out_proj")
    parts["out"] = {"kernel": out["kernel"].reshape(2, 2, 4), "bias": out["bias"]}
    norm = lambda name: {"scale": own[f"{name}.weight"], "bias": own[f"{name}.bias"]}
    params = {
        "conv": {"kernel": own["conv.weight"].transpose(2, 3, 1, 0), "bias": own["conv.bias"]},
        "norm": norm("norm"),
        "before": norm("before"),
        "attention": parts,
        "hidden": dense("hidden"),
        "head": dense("head"),
    }
    statistics = {"mean": own["norm.running_mean"], "var": own["norm.running_var"]}
    return {"params": params, "batch_stats": {"norm": statistics}}


def test_the_same_numbers_in_jax_and_pytorch():
    torch.manual_seed(2)
    model = TorchTwin().eval()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor += (
                    torch.rand_like(tensor) / 3 if "running_var" in name else torch.randn_like(tensor) / 3
                )
    ours = specimen(Twin(), IMAGES.transpose(0, 2, 3, 1), params=to_flax(model))
    theirs = specimen(model, IMAGES)
    assert_close(ours.outputs(), theirs.outputs(), ROUNDING["float32"])
    pairs = list(zip(ours.look(U), theirs.look(U), strict=True))
    assert len(pairs) == 7
    for one, two in pairs:
        assert one[:2] == two[:2]
        assert one.activation == two.activation
        for part in ("entering", "leaving", "gradient", "into_activation"):
            assert_close(getattr(one, part), getattr(two, part), 1e-5)
    assert jax.tree.leaves(ours.params)[0].dtype == np.float32


def test_batches_of_points_give_the_same_sites():
    model = residual(in_place=True)
    whole, parts = (specimen(model, IMAGES, batch_size=size).look(U) for size in (None, 4))
    for one, two in zip(whole, parts, strict=True):
        assert one[:2] == two[:2]
        for part in ("entering", "leaving", "gradient", "into_activation"):
            assert_close(getattr(two, part), getattr(one, part))


class TwoInputs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = torch.nn.Linear(4, 3), torch.nn.Linear(2, 3)

    def forward(self, x):
        return self.left(x["left"]).tanh() + self.right(x["right"])


def test_several_inputs():
    x = {"left": SEQUENCES[:, 0, :4], "right": SEQUENCES[:, 1, :2]}
    left, right = specimen(TwoInputs(), x).look(U)
    assert_close(left.entering, x["left"])
    assert_close(right.entering, x["right"])
    assert_close(right.gradient, U)
    assert_close(left.gradient, U / np.cosh(left.leaving) ** 2)


class LearnedQuery(torch.nn.Module):
    """One query that is a parameter looks at a sequence."""

    def __init__(self):
        super().__init__()
        self.query = torch.nn.Parameter(torch.randn(1, 8))
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        query = self.query.expand(len(x), -1, -1)
        return self.head(self.attention(query, x, x, need_weights=False)[0][:, 0])


def test_a_learned_query_is_no_site():
    """It depends on no input; all inputs would look alike there."""
    torch.manual_seed(2)
    model = LearnedQuery()
    measured = specimen(model, SEQUENCES)
    sites = measured.look(U)
    assert [site.name for site in sites] == ["attention.key", "attention.value", "attention.out", "head"]
    with torch.no_grad():
        assert_close(sites[-1].leaving, model(torch.as_tensor(SEQUENCES)).numpy(), ROUNDING["float32"])
