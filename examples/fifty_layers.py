"""A GELU network of fifty layers: PyTorch's own initialisation beside the recommended one.

python examples/fifty_layers.py [--steps 200]     (needs PyTorch)
"""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import finitewidth as fw

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=200)
steps = parser.parse_args().steps

x, y = load_digits(return_X_y=True)
x = (x - x.mean()) / x.std()
labels = np.eye(10)[y] - 0.1
x, labels, y = torch.as_tensor(x[:500]), torch.as_tensor(labels[:500]), torch.as_tensor(y[:500])

advice = fw.tune("gelu", depth=50, width=128, x=x.numpy(), n_out=10)
print(advice.verdict)
for name, signal in advice.signals.items():
    print(
        f"{name:18s} gradient at layer 1: {signal.gradient[0]:.0e}, "
        f"correlation of two inputs: {signal.correlation:.3f}"
    )


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[float, float]:
    """Loss and accuracy after full-batch gradient descent on half the sum of squares."""
    for _ in range(steps):
        optimizer.zero_grad()
        loss = 0.5 * ((model(x) - labels) ** 2).sum()
        loss.backward()
        optimizer.step()
    return loss.item(), float((model(x).argmax(1) == y).double().mean())


torch.manual_seed(0)
advised: dict = {}
exec(advice.pytorch, advised)  # the code that `finitewidth tune` prints: model and optimizer
print(
    "recommended:        loss {:8.3f}, accuracy {:.2f}".format(
        *train(advised["model"].double(), advised["optimizer"])
    )
)

layers = [
    nn.Linear(64, 128),
    *(m for _ in range(48) for m in (nn.GELU(), nn.Linear(128, 128))),
    nn.GELU(),
    nn.Linear(128, 10),
]
for rate in (1e-4, 1e-3, 1e-2):
    torch.manual_seed(0)
    model = nn.Sequential(*layers).double()
    for layer in layers:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    found = train(model, torch.optim.SGD(model.parameters(), rate))
    print(f"PyTorch, rate {rate:g}: loss {found[0]:8.3f}, accuracy {found[1]:.2f}")
