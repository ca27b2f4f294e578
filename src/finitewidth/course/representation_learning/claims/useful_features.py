"""How often feature learning helps: with the right meta features, and with unrelated ones."""

import functools
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from finitewidth.course._instruments import quadratic
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.estimate import Estimate, exact, sample_mean
from finitewidth.course._lab.sources import ROBERTS
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.representation_learning.networks.teachers import Teacher, bend_of, taught, test_loss
from finitewidth.report import style
from finitewidth.report.style import Figure


@dataclass(frozen=True)
class Useful(Teacher):
    """Many teachers, and students with the teacher's meta features or with unrelated ones.

    There is more noise than the meta features add to the labels, so that useful ones do not always help.
    Unrelated meta features are drawn in pairs of opposite sign.
    """

    draws: int
    pairs: int = 30
    step: float = 1e-3

    @functools.cached_property
    def helpful(self) -> np.ndarray:
        """Probabilities over the noise that the test loss falls, to leading order in the teacher's bend.

        With P = (-k_BA k_AA^-1, 1), bend b and noise n, the slope is -P(b + n) P b / tau for the teacher's
        meta features: Gaussian with mean -|Pb|^2 / tau. For unrelated ones the sign of psi decides, a fair
        coin.
        """
        helps = []
        for i in range(self.draws):
            problem, bend = bend_of(self, i)
            A, B, k = problem.train, problem.test, problem.k
            P = np.concatenate([-np.linalg.solve(k[np.ix_(A, A)], k[np.ix_(A, B)]).T, np.eye(len(B))], axis=1)
            spread = self.noise * np.std(bend) * np.linalg.norm(P.T @ (P @ bend))
            helps.append(ndtr(np.sum((P @ bend) ** 2) / spread))
        return np.array(helps)

    def theory(self) -> Prediction:
        return {"useful": np.asarray(self.helpful.mean()), "unrelated": np.array(0.5)}

    def measure(self, key) -> Measurement:
        # One of a pair helps, unless the second order in epsilon is larger than the first.
        useful, unrelated, small = [], [], self.step / 10
        for i in range(self.draws):
            right = taught(self, i)
            useful.append([test_loss(right, e) for e in (self.step, -self.step)])
            if i < self.pairs:
                other = quadratic.draw(self.rng(i, 2), self.train, self.test, self.features)
                problem = right._replace(psi=other.psi)
                unrelated.append([test_loss(problem, e) for e in (small, -small, 0.0)])
        right, other = np.array(useful), np.array(unrelated)
        helped = (other[:, :2] < other[:, 2:]).mean(axis=1)
        return {
            "useful": exact(np.mean(right[:, 0] < right[:, 1])),
            "unrelated": sample_mean(helped),
            "useful slopes": exact((right[:, 0] - right[:, 1]) / (2 * self.step)),
            "unrelated slopes": exact((other[:, 0] - other[:, 1]) / (2 * small)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # A count of independent draws, each with a probability of its own.
        p = self.helpful
        share = Estimate.of(measured["useful"].value, np.sqrt(np.sum(p * (1 - p))) / self.draws)
        yield z_score("share of draws helped, useful", predicted["useful"], share)
        yield z_score(
            "share of draws helped, unrelated, both signs", predicted["unrelated"], measured["unrelated"]
        )

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        figure, (axes,) = style.panels("Meta features help when they are the right ones")
        for name, color in zip(("useful", "unrelated"), style.PALETTE, strict=False):
            slopes = np.sort(measured[f"{name} slopes"].value)
            share = f"{name}: {float(measured[name].value):.0%} below zero"
            axes.plot(slopes, np.linspace(0, 1, len(slopes)), color=color, lw=1.7, label=share)
        axes.axvline(0.0, color=style.GREY, lw=1.0)
        axes.set(xlabel=r"slope of the test loss in $\epsilon$ at zero", ylabel="share of draws below")
        axes.legend()
        return figure


CLAIMS = (
    Claim(
        id="useful-meta-features",
        title="the right meta features help, unrelated ones do not on average",
        statement="""With unrelated meta features the test loss falls with epsilon in half of the draws,
        because the sign of psi is arbitrary. With the teacher's it falls with the probability Phi(|Pb|^2 / (s
        |P^T P b|)), where b is what they add to the labels, s the noise of the labels, and P = (-k_BA
        k_AA^-1, 1) takes off the linear fit; so for small b.""",
        source=f"{ROBERTS}, representation learning as regularisation",
        quick=Useful(110, teacher=0.01, noise=5.0),
        full=Useful(400, pairs=100, teacher=0.01, noise=5.0),
        wrong={"useful": scaled(0.5), "unrelated": scaled(2.0)},
    ),
)
