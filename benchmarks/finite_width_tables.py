"""Real tables: how much of the measured shift of the mean and of the spread each method explains.

`python benchmarks/finite_width_tables.py` splits a built-in table, chooses the ridge by leaving rows out,
measures one hidden layer of tanh neurons at several widths (`TrainedNetworks`), and prints for every method

    slope   of the measured on the predicted shift of the mean, over test points: one is right;
    left    the part of the measured shift that the method leaves, as root mean squares, noise taken out;
    spread  measured over predicted standard deviation, root mean squares over test points.

Standard errors are of the measurement, by projection of each pair of networks. A default run takes hours on
two cores; `--rows 40 --widths 64 --networks 8 --neurons 1024 --test 10` takes a minute.
"""

import argparse
import time
import warnings

import jax
import numpy as np

import finitewidth as fw
from finitewidth.data import built_in
from finitewidth.prediction import choose_ridge


def split(table, rows, test, seed):
    """Rows to learn and rows to predict, at random."""
    data = built_in(table)
    order = np.random.default_rng(seed).permutation(len(data.x))
    if rows + test > len(order):
        raise SystemExit(f"{table} has {len(order)} rows; {rows} + {test} were asked for.")
    train, held_out = order[:rows], order[rows : rows + test]
    return data.x[train], np.asarray(data.y)[train, :1], data.x[held_out]


def predictions(problem, ridge, neurons):
    """Laws by method; a method that has no answer is told and left out."""
    asked = {"order 0": {}, "order 1": {"order": 1}, "mean field": {"method": fw.MeanField(neurons)}}
    found = {}
    for name, how in asked.items():
        begin = time.perf_counter()
        try:
            found[name] = fw.predict(problem, ridge=ridge, **how)
        except ValueError as error:
            print(f"  {name}: {error}")
            continue
        print(f"  {name}: {time.perf_counter() - begin:.0f} s", flush=True)
    return found


def compared(law, infinite, measured):
    """Slope with its error, part left, and measured over predicted spread."""
    shift = np.asarray(measured.mean - infinite.mean)[:, 0]
    error = np.asarray(measured.correction.mean_error)[:, 0]
    noise = np.mean(error**2)
    size = max(np.mean(shift**2) - noise, 0.0)
    predicted = np.asarray(law.mean - infinite.mean)[:, 0]
    own = 0.0 if law.correction is None else np.mean(np.asarray(law.correction.mean_error) ** 2)
    left = np.mean((shift - predicted) ** 2) - noise - own
    slope = (np.nan, np.nan)
    if np.any(predicted):
        norm = predicted @ predicted
        slope = (shift @ predicted / norm, np.abs(predicted) @ error / norm)
    part = np.sqrt(max(left, 0.0) / size) if size > 0 else np.nan
    return (*slope, part, np.sqrt(np.mean(measured.std**2) / np.mean(law.std**2)))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--tables", nargs="+", default=["diabetes"])
    arguments.add_argument("--rows", nargs="+", type=int, default=[100, 200, 353])
    arguments.add_argument("--widths", nargs="+", type=int, default=[64, 128, 256])
    arguments.add_argument("--test", type=int, default=50)
    arguments.add_argument("--networks", type=int, default=256)
    arguments.add_argument("--neurons", type=int, default=65_536)
    arguments.add_argument("--ridge-factor", type=float, default=1.0, help="times the ridge of leave-one-out")
    arguments.add_argument("--seed", type=int, default=0)
    asked = arguments.parse_args()
    # The table says how large the corrections are.
    warnings.simplefilter("ignore")
    for table in asked.tables:
        for rows in asked.rows:
            data = split(table, rows, asked.test, asked.seed)
            for width in asked.widths:
                net = fw.MLP((width,), "tanh", C_b=0.1, C_W=1.3)
                problem = fw.TrainingProblem.of(net, *data)
                ridge = asked.ridge_factor * float(choose_ridge(problem, fw.GradientDescent()).ridge)
                print(f"{table}, {rows} rows, width {width}, ridge {ridge:.3g}", flush=True)
                laws = predictions(problem, ridge, asked.neurons)
                method = fw.TrainedNetworks(asked.networks, jax.random.key(asked.seed + 1))
                measured = fw.predict(problem, ridge=ridge, method=method)
                infinite = laws["order 0"]
                size = np.sqrt(np.mean(infinite.mean**2))
                error = np.sqrt(np.mean(measured.correction.mean_error**2)) / size
                shift = np.sqrt(np.mean(measured.correction.mean**2)) / size
                print(f"  measured shift / mean {shift:.4f}, its standard error {error:.4f}")
                for name, law in laws.items():
                    slope, sem, left, spread = compared(law, infinite, measured)
                    print(f"  {name:10s} slope {slope:6.3f}({sem:.3f})  left {left:.2f}  spread {spread:.3f}")


if __name__ == "__main__":
    main()
