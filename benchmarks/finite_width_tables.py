"""Real tables: how much of the measured shift of the mean and of the spread each method explains.

`python benchmarks/finite_width_tables.py` splits two built-in tables, chooses the ridge by leaving rows out,
measures one hidden layer of tanh neurons at several widths (`TrainedNetworks`), and prints for every method

    slope   of the measured on the predicted shift of the mean, over test points: one is right;
    left    the part of the measured shift that the method leaves, as root mean squares, noise taken out;
    spread  measured over predicted standard deviation, root mean squares over test points.

Standard errors are of the measurement. The coefficients of 1/width are computed once for all widths.
`--rows 40 --widths 64 --networks 8 --neurons 1024 --test 10` takes a minute.
"""

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import finitewidth as fw
from finitewidth.data import built_in
from finitewidth.prediction import TrainedDistribution, choose_ridge

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


def compared(law, own_error, infinite, measured):
    """Slope with its error, part left, and measured over predicted spread with its error."""
    shift = np.asarray(measured.mean - infinite.mean)[:, 0]
    error = np.asarray(measured.correction.mean_error)[:, 0]
    noise = np.mean(error**2)
    size = max(np.mean(shift**2) - noise, 0.0)
    predicted = np.asarray(law.mean - infinite.mean)[:, 0]
    left = np.mean((shift - predicted) ** 2) - noise - np.mean(np.asarray(own_error) ** 2)
    slope = (np.nan, np.nan)
    if np.any(predicted):
        norm = predicted @ predicted
        # Outputs of one network move together: this is the largest error that the points' errors allow.
        slope = (shift @ predicted / norm, np.abs(predicted) @ error / norm)
    part = np.sqrt(max(left, 0.0) / size) if size > 0 else np.nan
    variance = jnp.diag(measured.covariance)
    spread = np.sqrt(np.mean(variance) / np.mean(law.std**2))
    spread_error = spread * np.mean(jnp.diag(measured.correction.covariance_error)) / (2 * np.mean(variance))
    return (*slope, part, spread, spread_error)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--tables", nargs="+", default=["diabetes", "breast_cancer"])
    arguments.add_argument("--rows", nargs="+", type=int, default=[100, 200, 353])
    arguments.add_argument("--widths", nargs="+", type=int, default=[64, 128, 256])
    arguments.add_argument("--test", type=int, default=50)
    arguments.add_argument("--networks", type=int, default=64)
    arguments.add_argument("--neurons", type=int, default=8192)
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
                measured = fw.predict(problem_of(width, data), ridge=ridge, method=method)
                print(f"  networks: {time.perf_counter() - begin:.0f} s")
                infinite = expansion[0]
                size = np.sqrt(np.mean(infinite.mean**2))
                error = np.sqrt(np.mean(measured.correction.mean_error**2)) / size
                shift = np.sqrt(np.mean(measured.correction.mean**2)) / size
                print(f"  measured shift / mean {shift:.4f}, its standard error {error:.4f}")
                for name, (law, own_error) in laws.items():
                    slope, sem, left, spread, spread_error = compared(law, own_error, infinite, measured)
                    print(
                        f"  {name:10s} slope {slope:6.3f}({sem:.3f})  left {left:.2f}  "
                        f"spread {spread:.3f}({spread_error:.3f})",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
