"""Is the advice for residual networks true? A deep pre-norm network on digits, with it and without.

`python benchmarks/tuned_residual.py` trains 100 blocks by full-batch gradient descent: with initialisation,
branch scale and rates of `tune_residual` at multiples of the predicted largest step, with a readout of scale
1 and of scale 0.1, and PyTorch's default network (branches of scale one, one rate for everything) at many
learning rates. With `--adam` both are trained by Adam instead, at several rates.
"""

import argparse
import time

import numpy as np
import torch
from sklearn.datasets import load_digits

import finitewidth as fw


def data(points: int) -> tuple:
    x, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, labels = (x[order] - x.mean()) / x.std(), labels[order]
    y = np.eye(10)[labels] - 0.1
    train, test = slice(0, points), slice(points, points + 1000)
    tensors = [torch.tensor(part, dtype=torch.float32) for part in (x[train], y[train], x[test])]
    return *tensors, labels[test], x[train]


def train(model, optimizers, x, y, steps: int) -> list[float]:
    losses = []
    for _ in range(steps + 1):
        loss = 0.5 * ((model(x) - y) ** 2).sum()
        losses.append(float(loss.detach()))
        if not np.isfinite(losses[-1]) or losses[-1] > 1e6 * losses[0]:
            break
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return losses


def advised(advice, optimizer: str, rate: float, seed: int):
    torch.manual_seed(seed)
    space: dict = {}
    exec(advice.code("pytorch", optimizer, learning_rate=rate), space)
    return space["model"], space["optimizers"]


class DefaultBlock(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm, self.linear = torch.nn.LayerNorm(width), torch.nn.Linear(width, width)

    def forward(self, z):
        return z + self.linear(torch.nn.functional.gelu(self.norm(z)))


def default(blocks: int, width: int, optimizer: str, rate: float, seed: int):
    torch.manual_seed(seed)
    layers = [DefaultBlock(width) for _ in range(blocks)]
    top = [torch.nn.LayerNorm(width), torch.nn.Linear(width, 10)]
    model = torch.nn.Sequential(torch.nn.Linear(64, width), *layers, *top)
    kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    return model, [kind(model.parameters(), lr=rate)]


def line(name: str, losses: list[list[float]], accuracy: list[float]) -> str:
    first = [run[1] / run[0] for run in losses if len(run) > 1]
    rises = sum(max(run) > 1.05 * run[0] or not np.isfinite(run[-1]) for run in losses)
    ratio = [run[-1] / run[0] if np.isfinite(run[-1]) else np.inf for run in losses]
    return (
        f"| {name} | {np.mean(first):.3g} | {rises} of {len(losses)} | {np.median(ratio):.3g} | "
        f"{np.median(accuracy):.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--networks", type=int, default=3)
    parser.add_argument("--adam", action="store_true")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    x, y, x_test, labels, inputs = data(settings.points)
    advice = {
        scale: fw.tune_residual(
            "gelu", settings.blocks, settings.width, inputs, norm="pre", n_out=10, readout_scale=scale
        )
        for scale in (1.0, 0.1)
    }
    steps = ", ".join(f"{found.eta_max:.4g} with readout {scale:g}" for scale, found in advice.items())
    print(f"{settings}; predicted largest step {steps}\n")
    print("| network | loss after one step / before | loss rises | final loss / first | test accuracy |")
    print("|---|---|---|---|---|")

    def run(name, make):
        losses, accuracy = [], []
        for seed in range(settings.networks):
            model, optimizers = make(seed)
            losses.append(train(model, optimizers, x, y, settings.steps))
            with torch.no_grad():
                accuracy.append(float(np.mean(model(x_test).argmax(1).numpy() == labels)))
        print(line(name, losses, accuracy), flush=True)

    sizes = settings.blocks, settings.width
    if settings.adam:
        for rate in (1e-4, 3e-4, 1e-3, 3e-3):
            for scale, found in advice.items():
                make = lambda seed, found=found, rate=rate: advised(found, "adam", rate, seed)
                run(f"advised, readout {scale:g}, Adam, rate {rate:g}", make)
            make = lambda seed, rate=rate: default(*sizes, "adam", rate, seed)
            run(f"PyTorch's default, Adam, rate {rate:g}", make)
    else:
        for scale, found in advice.items():
            for factor in (0.5, 0.8, 0.9, 1.1, 1.2, 1.5):
                rate = factor * found.eta_max
                make = lambda seed, found=found, rate=rate: advised(found, "sgd", rate, seed)
                run(f"advised, readout {scale:g}, {factor} of the largest step", make)
        for rate in 10.0 ** np.arange(-6.0, -2.4, 0.5):
            make = lambda seed, rate=rate: default(*sizes, "sgd", rate, seed)
            run(f"PyTorch's default, rate {rate:.2g}", make)
    print(f"\n{time.process_time() - started:.0f} CPU seconds")


if __name__ == "__main__":
    main()
