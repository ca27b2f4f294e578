"""Models in training mode are refused with a sentence that says how to switch."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from finitewidth.measure.checks import check_function_of_one_input, empty_statistics
from finitewidth.measure.specimen import specimen

X = np.random.default_rng(12).normal(size=(6, 4))


def in_torch(*between):
    return torch.nn.Sequential(torch.nn.Linear(4, 4), *between, torch.nn.Linear(4, 2)).double()


class Linen(nn.Module):
    kind: str
    training: bool

    @nn.compact
    def __call__(self, x):
        h = nn.Dense(4)(x)
        if self.kind == "dropout":
            h = nn.Dropout(0.5)(h, deterministic=not self.training)
        else:
            h = nn.BatchNorm(use_running_average=not self.training)(h)
        return nn.Dense(2)(h)


class Nnx(nnx.Module):
    def __init__(self, layer):
        self.first = nnx.Linear(4, 2, rngs=nnx.Rngs(0), param_dtype=float)
        self.layer = layer(nnx.Rngs(0))

    def __call__(self, x):
        return self.layer(self.first(x))


class Equinox(eqx.Module):
    first: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __call__(self, x):
        return self.dropout(self.first(x))


def linen(kind, training):
    params = Linen(kind, False).init(jax.random.key(0), X)
    return specimen(Linen(kind, training), X, params=params)


def in_equinox(*, inference):
    return Equinox(eqx.nn.Linear(4, 2, key=jax.random.key(0)), eqx.nn.Dropout(0.5, inference=inference))


NNX_DROPOUT = lambda rngs: nnx.Dropout(0.5, rngs=rngs)
NNX_NORM = lambda rngs: nnx.BatchNorm(2, rngs=rngs)
NOISY_ATTENTION = torch.nn.TransformerEncoderLayer(4, 2, 4, dropout=0.1).double()
# Each model in training mode, and what the sentence says of it.
REFUSED = {
    "torch dropout": (lambda: specimen(in_torch(torch.nn.Dropout()), X), "dropout (1): call `model.eval()`"),
    "torch norm": (lambda: specimen(in_torch(torch.nn.BatchNorm1d(4)), X), "batch statistics (1): call"),
    "torch attention": (lambda: specimen(NOISY_ATTENTION, X[:, None]), "dropout (self_attn)"),
    "torch random slopes": (lambda: specimen(in_torch(torch.nn.RReLU()), X), "random slopes (1)"),
    "linen dropout": (lambda: linen("dropout", True), "dropout: pass `deterministic=True`"),
    "linen norm": (lambda: linen("norm", True), "batch statistics: pass `deterministic=True`"),
    "nnx dropout": (lambda: specimen(Nnx(NNX_DROPOUT), X), "dropout (layer): call `model.eval()`"),
    "nnx norm": (lambda: specimen(Nnx(NNX_NORM), X), "batch statistics (layer): call"),
    "equinox dropout": (
        lambda: specimen(in_equinox(inference=False), X),
        "dropout (dropout): pass `equinox.nn.inference_mode(model)`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_training_mode_is_refused(name):
    make, words = REFUSED[name]
    with pytest.raises(ValueError, match=r"^the model is in training mode, with ") as caught:
        make()
    sentence = str(caught.value)
    assert words in sentence
    assert sentence.endswith(" first.")
    assert "\n" not in sentence


def test_the_other_mode_is_taken():
    for between in (torch.nn.Dropout(0.1), torch.nn.BatchNorm1d(4)):
        check_function_of_one_input(specimen(in_torch(between).eval(), X))
    specimen(in_torch(torch.nn.Dropout(0.0)), X)
    specimen(NOISY_ATTENTION.eval(), X[:, None])
    for kind in ("dropout", "norm"):
        linen(kind, False)
    model = Nnx(NNX_DROPOUT)
    model.eval()
    specimen(model, X)
    specimen(in_equinox(inference=True), X)


def test_nothing_runs_before_the_mode_is_looked_at():
    model = in_torch(torch.nn.BatchNorm1d(4))
    with pytest.raises(ValueError, match="training mode"):
        specimen(model, X)
    assert int(model[1].num_batches_tracked) == 0


class Noisy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2, dtype=torch.float64)

    def forward(self, x):
        return self.layer(torch.nn.functional.dropout(x, 0.5))


def test_noise_and_batch_statistics_that_no_layer_declares():
    with pytest.raises(
        ValueError, match="two calls with the same inputs differ, as with dropout: call `model"
    ):
        check_function_of_one_input(specimen(Noisy().eval(), X))
    centred = lambda w, x: (x - x.mean(0)) @ w
    with pytest.raises(ValueError, match="depend on the other inputs, as with batch statistics: call `model"):
        check_function_of_one_input(specimen(centred, X, params=np.ones((4, 2))))
    check_function_of_one_input(specimen(lambda w, x: jnp.tanh(x @ w), X, params=np.ones((4, 2))))


def test_outputs_that_are_not_finite():
    root = lambda w, x: jnp.sqrt(x[:, :1] + x[:, 1:2] * 0) @ w
    x = np.array([[1.0, 0], [-1, 0], [2, 0]])
    with pytest.raises(ValueError, match="the outputs of 1 of 3 points are NaN or infinite"):
        check_function_of_one_input(specimen(root, x, params=np.ones((1, 2))))


def test_norms_that_have_never_seen_a_batch():
    model = in_torch(torch.nn.BatchNorm1d(4))
    assert empty_statistics(model) == ("1",)
    model(torch.as_tensor(X))
    assert empty_statistics(model) == ()
    assert empty_statistics(lambda w, x: x @ w) == ()
