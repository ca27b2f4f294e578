"""The side of torch.func in the comparison of empirical kernels."""

import time

import numpy as np
import torch
from torch.func import functional_call, jacrev, jvp, vjp, vmap
from turns import serve

job = {}


class Network(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.from_numpy(w) for w in weights])

    def forward(self, x):
        *hidden, last = self.weights
        for w in hidden:
            x = torch.relu(x @ w * (2 / w.shape[0]) ** 0.5)
        return x @ last * (2 / last.shape[0]) ** 0.5


def prepare(data, implementation):
    """Read the shared data; `implementation` is jacobian-contraction or ntk-vector-products."""
    with np.load(data) as stored:
        x, weights = torch.from_numpy(stored["x"]), [stored[f"w{l}"] for l in range(len(stored) - 1)]
    net = Network(weights)
    params = {name: p.detach() for name, p in net.named_parameters()}

    def one(params, point):
        return functional_call(net, params, (point[None],))[0]

    def contraction():
        jacobian = vmap(jacrev(one), (None, 0))(params, x)
        flat = [j.flatten(2)[:, 0] for j in jacobian.values()]
        return sum(j @ j.T for j in flat)

    def products():
        def row(point):
            value, pull = vjp(lambda p: one(p, point), params)
            (direction,) = pull(torch.ones_like(value))
            return jvp(lambda p: functional_call(net, p, (x,))[:, 0], (params,), (direction,))[1]

        return torch.stack([row(point) for point in x])

    job["run"] = {"jacobian-contraction": contraction, "ntk-vector-products": products}[implementation]


def run():
    """Seconds that the job takes."""
    start = time.perf_counter()
    job["result"] = job["run"]()
    return time.perf_counter() - start


def save(path):
    """Store the result of the last run."""
    np.save(path, job["result"].detach().numpy())


def versions():
    return {"torch": torch.__version__}


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, save, versions)})
