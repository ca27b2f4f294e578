r"""PyTorch's recurrent layers, step by step, so that their gates can be seen.

`nn.LSTM`, `nn.GRU` and `nn.RNN` run as one function. Here the same recursion is written out. Each gate of
each layer and direction is a site, with the preactivations $z_t=W_{ih}x_t+b_{ih}+W_{hh}h_{t-1}+b_{hh}$ at all
times t as its positions; the new state of a GRU weighs the second half by its reset gate r,
$z_t=W_{ih}x_t+b_{ih}+r\,(W_{hh}h_{t-1}+b_{hh})$. To every z a zero is added, by which one differentiates.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
# The gates in the order of the rows of the weights.
_GATES = {
    "lstm": ("input", "forget", "cell", "output"),
    "gru": ("reset", "update", "new"),
    "rnn_tanh": ("state",),
    "rnn_relu": ("state",),
}
_CARRIES = {"cell", "new", "state"}


class Gate(NamedTuple):
    """One gate of a layer at all times: what enters, what leaves, and the zeros that were added."""

    name: str
    """Layer, direction and gate: `l0.forget`, `l0_reverse.forget`."""
    weight: Tensor
    """The parameter W_ih."""
    entering: Tensor
    """x_t and h_{t-1} in a row (points, times, channels + units)."""
    leaving: Tensor
    """z (points, times, units)."""
    tap: Tensor
    """Zeros of the same shape."""
    activation: str
    weighs: bool
    """Whether it only weighs other numbers."""


def recurrent(name: str, args: Sequence) -> tuple[tuple, list[Gate]] | None:
    """What PyTorch's function returns for these arguments, and the gates; None for what is not written out.

    Packed sequences, dropout, and the projections of an LSTM are not.
    """
    if len(args) != 9 or not isinstance(args[2], list | tuple):
        return None
    x, states, weights, biases, layers, dropout, training, both_ways, batch_first = args
    per_layer = 4 if biases else 2
    directions = 2 if both_ways else 1
    if (training and dropout) or x.ndim != 3 or len(weights) != layers * directions * per_layer:
        return None
    x = x if batch_first else x.transpose(0, 1)
    states = states if name == "lstm" else (states,)
    ends: list[list[Tensor]] = [[] for _ in states]
    gates: list[Gate] = []
    for layer in range(layers):
        ways = []
        for way in range(directions):
            place = layer * directions + way
            own = weights[place * per_layer : (place + 1) * per_layer]
            start = [state[place] for state in states]
            label = f"l{layer}{'_reverse' if way else ''}"
            times = range(x.shape[1])[:: -1 if way else 1]
            out, end, found = _one_way(name, label, x, times, start, own)
            ways.append(out)
            gates += found
            for kept, state in zip(ends, end, strict=True):
                kept.append(state)
        x = torch.cat(ways, 2)
    out = x if batch_first else x.transpose(0, 1)
    return (out, *(torch.stack(kept) for kept in ends)), gates


def _one_way(
    name: str, label: str, x: Tensor, times: range, states: list[Tensor], weights: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor], list[Gate]]:
    """One layer in one direction, through the times in their order."""
    W_ih, W_hh, *biases = weights
    b_ih, b_hh = biases or (None, None)
    units, count = W_hh.shape[1], len(_GATES[name])
    taps = [x.new_zeros(len(x), x.shape[1], units).requires_grad_() for _ in range(count)]
    from_inputs = F.linear(x, W_ih, b_ih)
    records = {}
    for t in times:
        before = states[0]
        a = from_inputs[:, t].chunk(count, 1)
        b = F.linear(states[0], W_hh, b_hh).chunk(count, 1)
        z, states = _step(name, a, b, [tap[:, t] for tap in taps], states)
        records[t] = before, z, states[0]
    before, seen, outs = zip(*(records[t] for t in sorted(records)), strict=True)
    entering = torch.cat([x, torch.stack(before, 1)], 2)
    gates = [
        Gate(
            f"{label}.{gate}",
            W_ih,
            entering,
            torch.stack([z[place] for z in seen], 1),
            taps[place],
            _activation(name, gate),
            gate not in _CARRIES,
        )
        for place, gate in enumerate(_GATES[name])
    ]
    return torch.stack(outs, 1), states, gates


def _step(
    name: str, a: Sequence[Tensor], b: Sequence[Tensor], taps: Sequence[Tensor], states: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """The preactivations of one time, and the next states."""
    h = states[0]
    if name == "gru":
        z = [a[i] + b[i] + taps[i] for i in range(2)]
        reset, update = z[0].sigmoid(), z[1].sigmoid()
        z.append(a[2] + reset * b[2] + taps[2])
        return z, [(1 - update) * z[2].tanh() + update * h]
    z = [own + other + tap for own, other, tap in zip(a, b, taps, strict=True)]
    if name == "lstm":
        cell = z[1].sigmoid() * states[1] + z[0].sigmoid() * z[2].tanh()
        return z, [z[3].sigmoid() * cell.tanh(), cell]
    return z, [z[0].relu() if name == "rnn_relu" else z[0].tanh()]


def _activation(name: str, gate: str) -> str:
    if gate not in _CARRIES:
        return "sigmoid"
    return "relu" if name == "rnn_relu" else "tanh"
