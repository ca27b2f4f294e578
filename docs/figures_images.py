"""Draws the picture of the guide on images and prints its numbers: python docs/figures_images.py"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import finitewidth as fw
from finitewidth.advice.tuning.figures import save_figure
from finitewidth.report import style

IMAGES = Path(__file__).parent / "images"
SPLITS, TRAIN, TEST = 4, (25, 50, 100, 200), 300
RIDGE = 1e-3  # in units of the mean diagonal of the kernel

NUMBERS = {"C_b": 0.01, "C_W": 2.0}
NETWORKS = {
    "dense": fw.Sequential(fw.Flatten(), fw.MLP((1, 1), "relu", **NUMBERS)),
    "convolutions, flattened": fw.ConvNet((1, 1), (3, 3), "relu", head="flatten", **NUMBERS),
    "convolutions, pooled": fw.ConvNet((1, 1), (3, 3), "relu", head="pool", **NUMBERS),
}
COLORS = dict(zip(NETWORKS, (style.GREY, *style.PALETTE[:2]), strict=True))


def accuracies(net: fw.Layer, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Shares of test digits that kernel regression gets right, (splits, sizes)."""
    found = []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(x))
        train, test = order[: max(TRAIN)], order[max(TRAIN) : max(TRAIN) + TEST]
        own, cross = (np.asarray(fw.kernels(net, *which).ntk) for which in ((x[train],), (x[test], x[train])))
        labels = np.eye(10)[y[train]] - 0.1
        row = []
        for n in TRAIN:
            kernel = own[:n, :n] + RIDGE * np.trace(own[:n, :n]) / n * np.eye(n)
            outputs = cross[:, :n] @ np.linalg.solve(kernel, labels[:n])
            row.append(np.mean(outputs.argmax(axis=1) == y[test]))
        found.append(row)
    return np.array(found)


def shifted(x: np.ndarray, pixels: int) -> np.ndarray:
    """Images moved to the right, with zeros coming in from the left."""
    return np.pad(x, ((0, 0), (0, 0), (pixels, 0), (0, 0)))[:, :, : x.shape[2]]


def similarity(net: fw.Layer, x: np.ndarray, shifts: range) -> np.ndarray:
    """Mean correlation, in the NTK, of a digit with itself moved."""
    moved = np.concatenate([shifted(x, s) for s in shifts])
    own = np.sqrt(np.diag(fw.kernels(net, moved).ntk)).reshape(len(shifts), len(x))
    cross = np.asarray(fw.kernels(net, x, moved).ntk).reshape(len(x), len(shifts), len(x))
    return np.mean([cross[i, :, i] / (own[0, i] * own[:, i]) for i in range(len(x))], axis=0)


def digits() -> Figure:
    """Accuracy by the number of training digits, and what moving a digit does to the kernel."""
    images, y = load_digits(return_X_y=True)
    x = images.reshape(-1, 8, 8, 1) / 16
    with style.house_style():
        figure, (left, right) = style.panels("The tangent kernels of three networks on 8 x 8 digits", 2)
        shifts = range(4)
        found = {name: accuracies(net, x, y) for name, net in NETWORKS.items()}
        for name, net in NETWORKS.items():
            mean, sem = found[name].mean(axis=0), found[name].std(axis=0, ddof=1) / SPLITS**0.5
            print(name, *(f"{n}: {m:.3f} +- {s:.3f}" for n, m, s in zip(TRAIN, mean, sem, strict=True)))
            style.measured_points(left, np.array(TRAIN), mean, sem, COLORS[name], name)
            left.plot(TRAIN, mean, color=COLORS[name], lw=1)
            style.theory_line(right, list(shifts), similarity(net, x[:12], shifts), COLORS[name], name)
        gain = found["convolutions, pooled"] - found["dense"]
        print("pooled minus dense, paired", gain.mean(axis=0), gain.std(axis=0, ddof=1) / SPLITS**0.5)
        left.set(xscale="log", xlabel="training digits", ylabel=f"share of {TEST} test digits right")
        style.plain_ticks(left.xaxis, TRAIN)
        right.set(xlabel="pixels that a digit is moved", ylabel="correlation with the digit before")
        style.whole_ticks(right.xaxis)
        left.legend()
    return figure


if __name__ == "__main__":
    save_figure(digits(), IMAGES / "digits-kernels.png")
