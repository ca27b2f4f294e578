"""Is the advice for convolutional networks true? Two convolutions on digits, with it and without.

`python benchmarks/tuned_convolution.py` trains by full-batch gradient descent: with initialisation and rates
of `tune_convolutional` at multiples of the predicted largest step, and PyTorch's default network (one rate
for everything) at many learning rates. `--head flatten` reads every position instead of their average.
"""

import argparse
import time

import numpy as np
import torch
from tuned_residual import data, line, train

import finitewidth as fw


def advised(advice, rate: float, seed: int):
    torch.manual_seed(seed)
    space: dict = {}
    exec(advice.code(learning_rate=rate), space)
    return space["model"], [space["optimizer"]]


def default(channels: int, head: str, rate: float, seed: int):
    torch.manual_seed(seed)
    nn = torch.nn
    pooled = [nn.AdaptiveAvgPool2d(1)] if head == "pool" else []
    model = nn.Sequential(
        nn.Conv2d(1, channels, 3, padding="same"),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding="same"),
        nn.ReLU(),
        *pooled,
        nn.Flatten(),
        nn.Linear(channels * (1 if pooled else 64), 10),
    )
    return model, [torch.optim.SGD(model.parameters(), lr=rate)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--networks", type=int, default=3)
    parser.add_argument("--head", choices=("pool", "flatten"), default="pool")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    x, y, x_test, labels, inputs = data(settings.points)
    x, x_test = x.reshape(-1, 1, 8, 8), x_test.reshape(-1, 1, 8, 8)
    channels, head = settings.channels, settings.head
    images = inputs.reshape(-1, 8, 8, 1)
    advice = {
        scale: fw.tune_convolutional((channels, channels), images, n_out=10, head=head, readout_scale=scale)
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

    for scale, found in advice.items():
        for factor in (0.5, 0.8, 0.9, 1.1, 1.2, 1.5):
            rate = factor * found.eta_max
            make = lambda seed, found=found, rate=rate: advised(found, rate, seed)
            run(f"advised, readout {scale:g}, {factor} of the largest step", make)
    for rate in 10.0 ** np.arange(-4.5, -1.4, 0.5):
        run(
            f"PyTorch's default, rate {rate:.2g}", lambda seed, rate=rate: default(channels, head, rate, seed)
        )
    print(f"\n{time.process_time() - started:.0f} CPU seconds")


if __name__ == "__main__":
    main()
