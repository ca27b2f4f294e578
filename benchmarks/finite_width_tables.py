"""Real tables: how much of the measured shift of the mean and of the spread each method explains.

`python benchmarks/finite_width_tables.py` splits two built-in tables, chooses the ridge by leaving rows out,
measures one hidden layer of tanh neurons at several widths (`TrainedNetworks`), and prints for every method

    slope   of the measured on the predicted shift of the mean, over test points: one is right;
    left    the part of the measured shift that the method leaves, as root mean squares, noise taken out;
    spread  measured over predicted standard deviation, root mean squares over test points.

Standard errors are of the networks and of what a method samples, taken for one error that all test points
share. The coefficients of 1/width are computed once for all widths.
`--rows 40 --widths 64 --networks 8 --neurons 1024 --test 10` takes a minute.
"""

import argparse
import time
import warnings

import jax
import numpy as np

import finitewidth as fw
from finitewidth._base.estimate import sample_mean
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.methods.infinite_width.ridge import choose_ridge
from finitewidth.tables.sets import built_in

WIDE = 65_536  # coefficients of 1/width do not depend on it


def split(table, rows, test, seed):
    """Rows to learn and rows to predict, at random; classes are numbers of mean 0 and variance 1."""
    data = built_in(table)
    order = np.random.default_rng(seed).permutation(len(data.x))
    if rows + test > len(order):
        raise SystemExit(f"{table} has {len(order)} rows; {rows} + {test} were asked for.")
    y = np.asarray(data.y, float).reshape(len(data.x), -1)[:, :1]
    y = (y - y.mean()) / y.std()
    train, held_out = order[:rows], order[rows : rows + test]
    return data.x[train], y[train], data.x[held_out]


def problem_of(width, data):
    return fw.TrainingProblem.of(fw.MLP((width,), "tanh", C_b=0.1, C_W=1.3), *data)


def first_order(data, ridge, relative_error):
    """Infinite width, and its coefficients of 1/width in the mean and in the variances."""
    method = fw.SampledNeurons(relative_error, covariance_error=relative_error)
    law = fw.predict(problem_of(WIDE, data), ridge=ridge, order=1, method=method)
    coefficients = WIDE * law.mean_correction, WIDE * law.covariance_correction
    return law.infinite_width, *coefficients, WIDE * law.mean_correction_error


def predictions(data, ridge, width, neurons, expansion):
    """Laws by method, with the standard errors of their means; a method without an answer is told."""
    infinite, mean, covariance, error = expansion
    found = {
        "order 0": (infinite, 0.0),
        "order 1": (
            TrainedDistribution(infinite.mean + mean / width, infinite.covariance + covariance / width),
            error / width,
        ),
    }
    begin = time.perf_counter()
    try:
        law = fw.predict(problem_of(width, data), ridge=ridge, method=fw.MeanField(neurons))
        found["mean field"] = law, law.mean_correction_error
    except ValueError as error:
        print(f"  mean field: {error}")
    print(f"  mean field: {time.perf_counter() - begin:.0f} s", flush=True)
    return found


def along(pairs, direction, start):
    """Shift of the trained mean from `start` along a vector over test points, and its standard error."""
    moved = sample_mean((pairs.outputs - pairs.linear).mean(axis=1)[..., 0] @ direction)
    still = sample_mean((pairs.linear_draws.mean(axis=1)[..., 0] - start) @ direction)
    return float(moved.value + still.value), float(np.hypot(moved.sem, still.sem))


def mean_variance(pairs, start):
    """Variance of trained outputs, averaged over test points, with its standard error.

    Squares are taken about infinite width's mean, and the square of the shift is taken off without its noise.
    """
    squares = lambda outputs: np.mean((outputs[..., 0] - start) ** 2, axis=(1, 2))
    moved = sample_mean(squares(pairs.outputs) - squares(pairs.linear))
    still = sample_mean(squares(pairs.linear_draws))
    shift = np.mean((pairs.mean.value[:, 0] - start) ** 2 - pairs.mean.sem[:, 0] ** 2)
    return float(moved.value + still.value - shift), float(np.hypot(moved.sem, still.sem))


def compared(law, own_error, infinite, pairs):
    """Slope with its error, part left, and measured over predicted spread with its error.

    Each network gives one slope, so that outputs of one network may move together.
    """
    start = np.asarray(infinite.mean)[:, 0]
    shift, error = pairs.mean.value[:, 0] - start, pairs.mean.sem[:, 0]
    noise = np.mean(error**2)
    size = max(np.mean(shift**2) - noise, 0.0)
    predicted = np.asarray(law.mean)[:, 0] - start
    left = np.mean((shift - predicted) ** 2) - noise - np.mean(np.asarray(own_error) ** 2)
    slope = (np.nan, np.nan)
    if np.any(predicted):
        # A method's own noise makes its prediction longer, and every slope on it too small.
        squared = predicted @ predicted - np.sum(np.broadcast_to(own_error, law.mean.shape) ** 2)
        value, sem = (number / squared for number in along(pairs, predicted, start))
        own = np.sqrt(np.mean(np.asarray(own_error) ** 2) / np.mean(predicted**2))
        slope = value, np.hypot(sem, value * own)
    part = np.sqrt(max(left, 0.0) / size) if size > 0 else np.nan
    variance, variance_error = mean_variance(pairs, start)
    spread = np.sqrt(variance / np.mean(law.std**2))
    return (*slope, part, spread, spread * variance_error / (2 * variance))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--tables", nargs="+", default=["diabetes", "breast_cancer"])
    arguments.add_argument("--rows", nargs="+", type=int, default=[100, 200, 353])
    arguments.add_argument("--widths", nargs="+", type=int, default=[64, 128, 256])
    arguments.add_argument("--test", type=int, default=50)
    arguments.add_argument("--networks", type=int, default=64)
    arguments.add_argument("--neurons", type=int, default=65_536)
    arguments.add_argument("--relative-error", type=float, default=0.1, help="of the coefficients of 1/width")
    arguments.add_argument("--ridge-factor", type=float, default=1.0, help="times the ridge of leave-one-out")
    arguments.add_argument("--seed", type=int, default=0)
    asked = arguments.parse_args()
    # The table says how large the corrections are.
    warnings.simplefilter("ignore")
    for table in asked.tables:
        for rows in asked.rows:
            data = split(table, rows, asked.test, asked.seed)
            chosen = choose_ridge(problem_of(WIDE, data), fw.GradientDescent()).ridge
            ridge = asked.ridge_factor * float(chosen)
            begin = time.perf_counter()
            expansion = first_order(data, ridge, asked.relative_error)
            print(f"{table}, {rows} rows, ridge {ridge:.3g}")
            print(f"  order 1: {time.perf_counter() - begin:.0f} s", flush=True)
            for width in asked.widths:
                print(f"{table}, {rows} rows, width {width}", flush=True)
                laws = predictions(data, ridge, width, asked.neurons, expansion)
                method = fw.TrainedNetworks(asked.networks, jax.random.key(asked.seed + 1))
                begin = time.perf_counter()
                infinite = expansion[0]
                pairs = method.pairs(problem_of(width, data), fw.GradientDescent(), infinite, ridge=ridge)
                print(f"  networks: {time.perf_counter() - begin:.0f} s")
                size = np.sqrt(np.mean(infinite.mean**2))
                error = np.sqrt(np.mean(pairs.mean.sem**2)) / size
                shift = np.sqrt(np.mean((pairs.mean.value - infinite.mean) ** 2)) / size
                print(f"  measured shift / mean {shift:.4f}, its standard error {error:.4f}")
                for name, (law, own_error) in laws.items():
                    slope, sem, left, spread, spread_error = compared(law, own_error, infinite, pairs)
                    print(
                        f"  {name:10s} slope {slope:6.3f}({sem:.3f})  left {left:.2f}  "
                        f"spread {spread:.3f}({spread_error:.3f})",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
