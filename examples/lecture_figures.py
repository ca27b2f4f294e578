"""One figure of each lecture: a claim run against real networks, with its verdict.

python examples/lecture_figures.py [--out lectures] [--scale full]
"""

import argparse
from pathlib import Path

from finitewidth import course as lab

CLAIMS = {
    "the talk: a trained quadratic model is nearly a kernel machine": "nk-sweep",
    "day 2: gradient descent on a linear model": "lin-test-solution-any-t",
    "day 3: one step of a network in powers of the learning rate": "mlp-step-taylor",
    "ORF 543: two inputs become parallel with depth": "relu-angle-decay",
    "IEMS 402: the distance to the linearised path": "lazy-alpha-orders",
}

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--out", type=Path, default=Path("lectures"))
parser.add_argument("--scale", choices=("quick", "full"), default="quick")
options = parser.parse_args()

for lecture, claim in CLAIMS.items():
    outcome = lab.run(claim, options.scale, out=options.out)
    verdict = "holds" if outcome.verdict.holds else "fails"
    print(f"{lecture}\n  {claim}: {lab.claim(claim).title}: {verdict}; {options.out / claim}.png")
