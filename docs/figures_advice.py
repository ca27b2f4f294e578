"""Pictures of residual networks and of the coordinate check: python docs/figures_advice.py"""

from pathlib import Path

import numpy as np
import torch

import finitewidth as fw
from finitewidth.advice.tuning.figures import save_figure
from finitewidth.advice.tuning.residual_figure import residual_tuning_figure
from finitewidth.measure.layers.coordinate_check import coordinate_check
from finitewidth.report.coordinate_figure import coordinate_figure

IMAGES = Path(__file__).parent / "images"
WIDTHS = (64, 128, 256, 512)


def network(mup: bool):
    def build(width, seed):
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(8, width), torch.nn.Linear(width, width), torch.nn.Linear(width, 1)]
        ratio = 64 / width if mup else 1.0
        with torch.no_grad():
            layers[2].weight *= ratio**0.5
        rates = (0.003, 0.003 * ratio, 0.003 * ratio)
        groups = [{"params": [layer.weight], "lr": r} for layer, r in zip(layers, rates, strict=True)]
        groups.append({"params": [layer.bias for layer in layers], "lr": 0.003})
        module = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
        return module, torch.optim.Adam(groups)

    return build


def main() -> None:
    x = np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
    for mup, name in ((False, "standard"), (True, "mup")):
        check = coordinate_check(network(mup), WIDTHS, x, np.sin(x[:, :1]), steps=4, draws=3)
        title = "Adam, maximal update" if mup else "Adam, standard parametrisation"
        save_figure(coordinate_figure(check, title), IMAGES / f"coordinate-check-{name}.png")
        print(check.verdict)
    advice = fw.tune_residual("gelu", 100, 128, norm="pre")
    save_figure(residual_tuning_figure(advice), IMAGES / "tune-residual.png")
    advice = fw.tune_residual("relu", 100, 128)
    save_figure(residual_tuning_figure(advice), IMAGES / "tune-residual-no-norm.png")


if __name__ == "__main__":
    main()
