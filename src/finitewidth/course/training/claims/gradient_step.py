"""One step of gradient descent as a series in the learning rate."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, compare_each
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.sources import DAY_3
from finitewidth.course._lab.wrong import scaled
from finitewidth.networks.tangent.differentials import empirical_ddntk, empirical_dntk
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.networks.training.training import train
from finitewidth.report.style import Figure


@dataclass(frozen=True)
class OneStep:
    """A small tanh network with two outputs, and learning rates that are halved each time."""

    halvings: int
    eta: float = 0.01
    hidden: tuple[int, ...] = (4, 4)
    points: int = 3

    @property
    def etas(self) -> np.ndarray:
        return self.eta * 0.5 ** np.arange(self.halvings + 1)

    def theory(self) -> Prediction:
        """What is left out after 0 to 3 terms of the series begins with the next power of eta."""
        return {"order": np.arange(1.0, 5.0)}

    def measure(self, key) -> Measurement:
        data_key, net_key = jax.random.split(key)
        net = MLP(self.hidden, "tanh", C_b=0.1, C_W=1.2, lambda_W=1.5, n_out=2)
        x = jax.random.normal(data_key, (self.points, 3))
        y = jnp.stack([jnp.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
        params = net.init(net_key, 3)
        z = net.apply(params, x)
        e = z - y
        terms = [
            z.T,
            -jnp.einsum("ijab,bj->ia", empirical_ntk(net, params, x), e),
            jnp.einsum("ijkabc,bj,ck->ia", empirical_dntk(net, params, x), e, e) / 2,
            -jnp.einsum("ijklabcd,bj,ck,dl->ia", empirical_ddntk(net, params, x).I, e, e, e) / 6,
        ]
        errors = np.zeros((4, len(self.etas)))
        for k, eta in enumerate(self.etas):
            after = net.apply(train(net, params, x, y, steps=1, learning_rate=float(eta)).params, x).T
            for order in range(4):
                series = sum(eta**p * terms[p] for p in range(order + 1))
                errors[order, k] = float(jnp.linalg.norm(after - series))
        # The power between two learning rates is off by a term linear in them: two such powers cancel it.
        coarse, fine = np.log2(errors[:, -3:-1] / errors[:, -2:]).T
        return {"errors": exact(errors), "order": exact(2 * fine - coarse)}

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        title = "Each tensor of the series removes one power of the learning rate"
        names = ("outputs of the start", "+ NTK", "+ dNTK", "+ ddNTK")
        laws = {name: (measured["errors"][k], predicted["order"][k]) for k, name in enumerate(names)}
        return power_laws(title, self.etas, laws, r"learning rate $\eta$", "error after one step")


CLAIMS = (
    Claim(
        id="mlp-step-taylor",
        title="one step is NTK, dNTK and ddNTK up to the fourth power of the learning rate",
        statement="""One step of gradient descent with a learning-rate tensor changes the outputs by -eta H e
        + eta^2/2 dH e e - eta^3/6 ddH e e e, summed over points and outputs, up to eta^4.""",
        source=f"{DAY_3} (sum over outputs as well as points)",
        quick=OneStep(halvings=2, eta=0.005),
        full=OneStep(halvings=5, eta=0.1),
        compare=compare_each({"order": "power of the learning rate"}, absolute_error, 0.05),
        wrong={"order": scaled(0.75)},
    ),
)
