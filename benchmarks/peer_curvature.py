"""The sides of curvlinops and PyHessian in the comparison of curvature."""

import resource
import time
from importlib import metadata

import numpy as np
import torch
from turns import serve

job = {}


def network(params):
    """The shared network in PyTorch."""
    layers = []
    for weight, bias in params:
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight.data, layer.bias.data = torch.from_numpy(weight), torch.from_numpy(bias)
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def prepare(data, library):
    """Read the shared data; `library` is curvlinops or pyhessian."""
    torch.set_num_threads(1)
    with np.load(data) as stored:
        job["batch"] = torch.from_numpy(stored["x"]), torch.from_numpy(stored["y"])
        job["model"] = network([(stored[f"w{l}"], stored[f"b{l}"]) for l in range(3)])
    job["library"], job["loss"] = library, torch.nn.CrossEntropyLoss()


def curvlinops_operator(kind="hessian"):
    from curvlinops import GGNLinearOperator, HessianLinearOperator

    make = {"hessian": HessianLinearOperator, "gauss-newton": GGNLinearOperator}[kind]
    params = list(job["model"].parameters())
    return make(job["model"], job["loss"], params, [job["batch"]], check_deterministic=False)


def pyhessian():
    from pyhessian import hessian

    return hessian(job["model"], job["loss"], data=job["batch"], cuda=False)


def timed(run):
    start = time.process_time(), time.perf_counter()
    result = run()
    return {"cpu": time.process_time() - start[0], "wall": time.perf_counter() - start[1]}, result


def product(kind, repeats):
    """Seconds of one product, after a first one."""
    if job["library"] == "curvlinops":
        operator = curvlinops_operator(kind)
        v = torch.randn(operator.shape[1])
        once = lambda: operator @ v
    else:
        from pyhessian.utils import hessian_vector_product

        h = pyhessian()
        v = [torch.randn_like(weight) for weight in h.params]
        once = lambda: hessian_vector_product(h.gradsH, h.params, v)
    once()
    times, _ = timed(lambda: [once() for _ in range(repeats)])
    return {name: seconds / repeats for name, seconds in times.items()}


def top(count, tolerance):
    """Largest eigenpairs, with the worst residual relative to its eigenvalue."""
    if job["library"] == "curvlinops":
        from scipy.sparse.linalg import eigsh

        operator = curvlinops_operator().to_scipy()
        start = np.random.default_rng(0).normal(size=operator.shape[0]).astype(np.float32)
        times, (values, vectors) = timed(
            lambda: eigsh(operator, k=count, which="LA", tol=tolerance, v0=start)
        )
        left = [np.linalg.norm(operator @ v - value * v) for value, v in zip(values, vectors.T, strict=True)]
        values, left = values[::-1], left[::-1]
    else:
        from pyhessian.utils import hessian_vector_product

        times, (values, vectors) = timed(lambda: pyhessian().eigenvalues(tol=tolerance, top_n=count))
        h = pyhessian()
        left = []
        for value, v in zip(values, vectors, strict=True):
            moved = hessian_vector_product(h.gradsH, h.params, v)
            left.append(
                float(sum(torch.sum((a - value * b) ** 2) for a, b in zip(moved, v, strict=True))) ** 0.5
            )
    worst = float(np.max(np.array(left) / np.abs(values)))
    return {**times, "residual": worst, "values": [float(value) for value in values]}


def trace(method, products):
    """The trace by some products: Hutchinson's estimate, Hutch++ or XTrace."""
    torch.manual_seed(job.setdefault("seed", 0))
    job["seed"] += 1
    if job["library"] == "pyhessian":
        times, samples = timed(lambda: pyhessian().trace(maxIter=products, tol=0.0))
        return {
            **times,
            "value": float(np.mean(samples)),
            "error": float(np.std(samples, ddof=1) / len(samples) ** 0.5),
        }
    from curvlinops import hutchinson_trace, hutchpp_trace, xtrace

    estimate = {"hutchinson": hutchinson_trace, "hutch++": hutchpp_trace, "xtrace": xtrace}[method]
    operator = curvlinops_operator()
    times, value = timed(lambda: float(estimate(operator, num_matvecs=products)))
    return {**times, "value": value}


def density(probes, steps):
    """Seconds of a density by plain stochastic Lanczos quadrature; PyHessian's does not run on this torch."""
    from curvlinops.papyan2020traces.spectrum import fast_lanczos

    operator = curvlinops_operator()
    times, _ = timed(lambda: [fast_lanczos(operator, steps) for _ in range(probes)])
    return times


def memory():
    """The most that the process has used so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def versions():
    names = ("torch", "curvlinops-for-pytorch", "PyHessian")
    return {name: metadata.version(name) for name in names}


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, product, top, trace, density, memory, versions)})
