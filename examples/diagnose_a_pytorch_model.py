"""What is wrong with a PyTorch model: a deep tanh network with weights that are too large, and its repair.

python examples/diagnose_a_pytorch_model.py     (needs PyTorch)
"""

from itertools import pairwise

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import finitewidth as fw

x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)


def network(gain: float) -> nn.Sequential:
    """Eight layers of 96 tanh units with weights of variance gain^2 / fan-in."""
    torch.manual_seed(0)
    sizes = [64, *[96] * 8, 10]
    layers = [m for a, b in pairwise(sizes) for m in (nn.Linear(a, b), nn.Tanh())][:-1]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=gain / layer.in_features**0.5)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


for gain in (4.0, 1.0):
    found = fw.diagnose(network(gain), x, y, learning_rate=0.1, points=100)
    print(f"gain {gain}: {found.verdict}")
    for finding in found.findings:
        if finding.remedy:
            print(f"  {finding.name}: {finding.meaning}\n    {finding.remedy}")
