"""p(f*) at three widths: what networks of width 16, 64 and 256 learn from six points, predicted and measured.

python examples/three_widths.py [--widths 16 64 256] [--networks 200] [--out three_widths.png]
"""

import argparse

import jax
import matplotlib.pyplot as plt
import numpy as np

import finitewidth as fw

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--widths", type=int, nargs="+", default=[16, 64, 256])
parser.add_argument("--networks", type=int, default=200)
parser.add_argument("--out", default="three_widths.png")
options = parser.parse_args()

x = np.array([-1.6, -0.9, -0.3, 0.4, 1.0, 1.7])[:, None]
y = np.sin(2 * x)
x_test = np.array([-1.2, 0.1, 1.4])[:, None]
ridge = 0.3

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
widths = options.widths
for width in widths:
    net = fw.MLP(hidden=(width, width), activation="tanh", C_b=0.2, C_W=1.5)
    law = fw.predict(net, x, y, x_test, ridge=ridge, order=1)
    check = fw.verify(law, networks=options.networks, key=jax.random.key(width))
    infinite, corrected = (np.round(means[:, 0], 3) for means in (law.infinite_width.mean, law.mean))
    print(f"width {width}: infinite width {infinite}, order 1 {corrected}")
    print(check)
    for axis, theory, flat, measured, bar in (
        (axes[0], law.mean[:, 0], law.infinite_width.mean[:, 0], check.mean[:, 0], check.sem[:, 0]),
        (axes[1], law.std, law.infinite_width.std, check.std[:, 0], check.sem[:, 0] / 2**0.5),
    ):
        for point, colour in enumerate(("C0", "C1", "C2")):
            axis.plot(width, theory[point], "_", color=colour, markersize=18, markeredgewidth=2)
            axis.axhline(float(flat[point]), color=colour, linewidth=0.6, linestyle=":")
            axis.errorbar(width, measured[point], 2 * bar[point], fmt="o", color=colour, markersize=4)
for axis, what in zip(axes, ("mean", "spread"), strict=True):
    axis.set(
        xscale="log", xlabel="width", ylabel=f"{what} of trained networks", xticks=widths, xticklabels=widths
    )
    axis.minorticks_off()
axes[0].set_title("bar: order 1, points: networks, dotted: infinite width", fontsize="small", loc="left")
figure.savefig(options.out, dpi=150)
print(f"picture: {options.out}")
