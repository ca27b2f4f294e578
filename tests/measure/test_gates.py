"""Gates weigh other numbers and carry none of their own; recurrent layers of PyTorch show theirs."""

import flax.linen as nn
import jax
import numpy as np
import pytest
import torch
from torch.nn.functional import hardsigmoid

from finitewidth.measure.specimen import specimen

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 4))
SEQUENCES = RNG.normal(size=(5, 3, 4))
WEIGHTS = {name: RNG.normal(size=(4, 4)) for name in "abc"}
LINEN_SEQUENCES = SEQUENCES.astype(np.float32)

# Functions of (activated a, b, x) for one library of functions, and which of the two are gates.
CASES = {
    "highway": (lambda lib, a, b, x: lib.sigmoid(a) * x + lib.tanh(b) * (1 - lib.sigmoid(a)), (True, False)),
    "one minus a gate": (lambda lib, a, b, x: (1 - lib.sigmoid(a)) * b, (True, False)),
    "tanh times sigmoid": (lambda lib, a, b, x: lib.tanh(a) * lib.sigmoid(b), (False, True)),
    "weighs and carries": (
        lambda lib, a, b, x: lib.sigmoid(a) * b + lib.sigmoid(a),
        (False, False),
    ),
    "swish": (lambda lib, a, b, x: a * lib.sigmoid(a) + b, (False, False)),
    "a signal": (lambda lib, a, b, x: lib.sigmoid(a) + b, (False, False)),
}


class Torch(torch.nn.Module):
    def __init__(self, combine):
        super().__init__()
        self.combine = combine
        for name, value in WEIGHTS.items():
            self.register_parameter(name, torch.nn.Parameter(torch.tensor(value)))

    def forward(self, x):
        return self.combine(torch, x @ self.a, x @ self.b, x) @ self.c


@pytest.mark.parametrize("library", ["jax", "torch"])
@pytest.mark.parametrize("name", CASES)
def test_which_sites_are_gates(name, library):
    combine, expected = CASES[name]
    if library == "torch":
        measured = specimen(Torch(combine), X)
    else:
        jax_names = type("Names", (), {"sigmoid": jax.nn.sigmoid, "tanh": jax.numpy.tanh})
        apply = lambda p, x: combine(jax_names, x @ p["a"], x @ p["b"], x) @ p["c"]
        measured = specimen(apply, X, params=WEIGHTS)
    sites = {site.name: site.gate for site in measured.look(np.ones((6, 4)))}
    assert (sites["a"], sites["b"], sites["c"]) == (*expected, False)


class Squeeze(torch.nn.Module):
    """Channels weighed in place by a function of their means."""

    def __init__(self):
        super().__init__()
        self.conv, self.weigh = torch.nn.Conv2d(1, 3, 3), torch.nn.Linear(3, 3)

    def forward(self, x):
        x = self.conv(x)
        x *= hardsigmoid(self.weigh(x.mean((2, 3))))[:, :, None, None]
        return x.flatten(1)


def test_channels_weighed_in_place():
    measured = specimen(Squeeze(), np.ones((4, 1, 4, 4), np.float32))
    sites = measured.look(np.ones((4, 12), np.float32))
    assert [(site.name, site.activation, site.gate) for site in sites] == [
        ("conv", None, False),
        ("weigh", "hard_sigmoid", True),
    ]


class LinenLSTM(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.RNN(nn.LSTMCell(4))(x)[:, -1])


def test_gates_of_a_recurrent_layer_of_flax():
    """Three of the four kinds of an LSTM weigh; PyTorch's and Flax's rule agree in this."""
    model = LinenLSTM()
    params = model.init(jax.random.key(0), LINEN_SEQUENCES)
    sites = specimen(model, LINEN_SEQUENCES, params=params).look(np.ones((5, 2), np.float32))
    weighing = {site.name.rpartition(".")[2] for site in sites if site.gate}
    assert weighing in ({"hi", "hf", "ho"}, {"ii", "if", "io"})


class Recurrent(torch.nn.Module):
    def __init__(self, kind, **settings):
        super().__init__()
        self.layer = kind(4, 3, **settings)
        units = 3 * (2 if settings.get("bidirectional") else 1)
        self.first, self.head = settings.get("batch_first", False), torch.nn.Linear(units, 2)

    def forward(self, x):
        out, end = self.layer(x if self.first else x.transpose(0, 1))
        end = end[0] if isinstance(end, tuple) else end
        last = out[:, -1] if self.first else out[-1]
        return self.head(last) + end.sum((0, 2))[:, None]


RECURRENT = {
    "lstm": (torch.nn.LSTM, {"num_layers": 2, "batch_first": True}),
    "lstm both ways": (torch.nn.LSTM, {"bidirectional": True}),
    "gru": (torch.nn.GRU, {"num_layers": 2}),
    "gru both ways": (torch.nn.GRU, {"bidirectional": True, "batch_first": True}),
    "tanh": (torch.nn.RNN, {"batch_first": True}),
    "relu without biases": (torch.nn.RNN, {"nonlinearity": "relu", "bias": False}),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_step_by_step_are_pytorch_s_own(name):
    """The gradient of W_ih by PyTorch's own function is the sum of what flows back times what enters."""
    kind, settings = RECURRENT[name]
    torch.manual_seed(0)
    model = Recurrent(kind, **settings).double()
    cotangent = RNG.normal(size=(5, 2))
    found = [s for s in specimen(model, SEQUENCES).look(cotangent) if s.kind == "recurrent"]
    outputs = model(torch.tensor(SEQUENCES))
    (outputs * torch.tensor(cotangent)).sum().backward()
    gates = {"lstm": 4, "gru": 3}.get(name.split()[0], 1)
    parameters = dict(model.named_parameters())
    layers = [p for p in parameters if "weight_ih" in p]
    assert len(found) == gates * len(layers)
    for parameter in layers:
        own = [site for site in found if site.parameter == parameter]
        channels = parameters[parameter].shape[1]
        sums = [np.einsum("ptu,ptc->uc", s.gradient, s.entering[..., :channels]) for s in own]
        np.testing.assert_allclose(np.concatenate(sums), parameters[parameter].grad.numpy(), atol=1e-12)
        if "gru" not in name:
            recurrent = parameters[parameter.replace("_ih_", "_hh_")].grad.numpy()
            sums = [np.einsum("ptu,ptc->uc", s.gradient, s.entering[..., channels:]) for s in own]
            np.testing.assert_allclose(np.concatenate(sums), recurrent, atol=1e-12)


def test_names_and_preactivations_of_an_lstm():
    torch.manual_seed(0)
    model = Recurrent(torch.nn.LSTM, batch_first=True).double()
    sites = specimen(model, SEQUENCES).look(np.ones((5, 2)))
    assert [(s.name, s.activation, s.gate) for s in sites] == [
        ("layer.l0.input", "sigmoid", True),
        ("layer.l0.forget", "sigmoid", True),
        ("layer.l0.cell", "tanh", False),
        ("layer.l0.output", "sigmoid", True),
        ("head", None, False),
    ]
    # From the last preactivations, the states that PyTorch returns.
    with torch.no_grad():
        out, (_, cell) = model.layer(torch.tensor(SEQUENCES))
    gate = 1 / (1 + np.exp(-sites[3].leaving[:, -1]))
    np.testing.assert_allclose(out[:, -1].numpy(), gate * np.tanh(cell[0].numpy()), atol=1e-12)
    np.testing.assert_allclose(sites[-1].entering, out[:, -1].numpy(), atol=1e-12)
