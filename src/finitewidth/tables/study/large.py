"""A study of more rows than fit into memory as matrices.

The ridge is chosen on a part of the training rows, each left out in turn; the label noise is fitted at full
size, at some training rows that are left out one at a time.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.architecture.layer import Layer
from finitewidth.prediction.methods.infinite_width.ridge import fitted_noise
from finitewidth.prediction.methods.large.predict import predict_large
from finitewidth.prediction.methods.large.subset import ridge_by_some_rows, rows_to_choose_on
from finitewidth.tables.study.preparation import Prepared
from finitewidth.tables.study.study import Alignment, Choices, Study, scored

# Errors of class labels are seen less finely than those of numbers.
_TOLERANCE, _TOLERANCE_OF_CLASSES = 1e-4, 1e-3


def run_large_study(
    data: Prepared,
    net: Layer,
    choices: Choices,
    solver: str,
    why: str,
    memory: int,
    announce: Callable[[str], None],
) -> Study:
    """Predict and score with a solver that does not hold the kernels in memory."""
    _refuse(choices, why)
    algorithm = GradientDescent(choices.eta)
    ridge, chosen = choices.ridge, False
    if ridge == "auto" or solver == "nystrom":
        rows = rows_to_choose_on(len(data.x_train), memory)
        announce(f"ridge, on {len(rows):,} rows")
        choice = ridge_by_some_rows(net, data.x_train, data.y_train, algorithm, data.labels, rows)
        ridge, chosen = (choice.ridge, True) if ridge == "auto" else (ridge, False)
    else:
        choice = None
    fit = predict_large(
        net,
        data.x_train,
        data.y_train,
        data.x_test,
        governed="ntk",
        ridge=float(ridge),
        method=solver,
        why=why,
        memory=memory,
        store=choices.store,
        scheduler=choices.scheduler,
        tolerance=_TOLERANCE_OF_CLASSES if data.classes else _TOLERANCE,
        announce=announce,
        leave_out=True,
    )
    law, held = fit.law, fit.held
    # Nystrom's features have no variances of networks: the noise is that of the rows the ridge was chosen on.
    noise = (
        fitted_noise(fit.left_out, data.y_train[held], _of(data.labels, held)).variance
        if len(held) or choice is None
        else choice.noise.variance
    )
    spread = np.nan_to_num(np.asarray(law.std))
    expected = np.asarray(law.mean), spread**2 + noise
    largest = float(fit.eigenvalues[0]) * len(data.x_train) + float(ridge)
    left_out = None
    if len(held):
        left_out = scored(
            data, fit.left_out.mean, fit.left_out.variance + noise, data.y_train[held], _of(data.labels, held)
        )
    return Study(
        data=data,
        net=net,
        choices=choices,
        algorithm=algorithm.resolved(largest),
        ridge=float(ridge),
        ridge_chosen=chosen,
        stop_chosen=False,
        largest_eta=2 / largest,
        law=law,
        remark="",
        noise=noise,
        alignment=Alignment(fit.eigenvalues, fit.power),
        curves=None,
        scores=None if data.y_test is None else scored(data, *expected, data.y_test, data.labels_test),
        verification=None,
        left_out=left_out,
    )


def _of(labels: Int[np.ndarray, " train"] | None, rows: Int[np.ndarray, " some"]) -> np.ndarray | None:
    return None if labels is None else labels[rows]


def _refuse(choices: Choices, why: str) -> None:
    """What needs the kernels in memory."""
    asked = [
        (choices.order in (1, "1/2"), f"--order {choices.order}"),
        (choices.stop == "auto", "--stop auto"),
        (not GradientDescent(choices.eta, choices.steps).converged, f"--steps {choices.steps}"),
        (bool(choices.networks), f"--verify {choices.networks}"),
    ]
    for wanted, words in asked:
        if wanted:
            raise ValueError(f"{words} needs the kernels in memory, but {why}: give fewer rows with --train.")
