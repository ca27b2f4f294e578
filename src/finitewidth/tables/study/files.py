"""What a study leaves on disk: predictions.csv, summary.json and report.html."""

import csv
import dataclasses
import io
import json
import math
from typing import Any

import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.large_law import LargeLaw
from finitewidth.report.directory import PREDICTIONS, REPORT, SUMMARY
from finitewidth.tables.study.baselines import Baseline
from finitewidth.tables.study.scores import ClassificationScores, RegressionScores, root_mean_square
from finitewidth.tables.study.study import Law, Study
from finitewidth.verification.overall import RATE, Overall, Ratio
from finitewidth.verification.result import Verification


def study_files(study: Study, report: str) -> dict[str, str]:
    """The three files by name."""
    return {PREDICTIONS: predictions(study), SUMMARY: json.dumps(summary(study), indent=1), REPORT: report}


def predictions(study: Study) -> str:
    """One line for every test row: its number, what came if known, the prediction and its uncertainty."""
    data = study.data
    columns: dict[str, Any] = {"row": data.rows_test}
    if data.classes:
        probability = study.probability
        best = probability.argmax(axis=1)
        if data.labels_test is not None:
            columns[data.target] = [data.classes[i] for i in data.labels_test]
        columns["predicted"] = [data.classes[i] for i in best]
        columns |= {f"probability {name}": p for name, p in zip(data.classes, probability.T, strict=True)}
    else:
        if data.y_test is not None:
            columns[data.target] = data.center + data.unit * data.y_test[:, 0]
        columns |= {"predicted": study.mean[:, 0], "std": study.std}
        if isinstance(study.law, TrainedDistribution) and study.law.correction is not None:
            columns |= {
                "correction": data.unit * np.asarray(study.law.mean_correction[:, 0]),
                "standard error of correction": data.unit * np.asarray(study.law.mean_correction_error[:, 0]),
            }
    columns["spread of networks"] = study.spread
    if study.law.correction is not None:
        columns["spread at infinite width"] = study.infinite_spread
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(_cells(values) for values in columns.values()), strict=True))
    return text.getvalue()


def _cells(values: Any) -> list:
    return [f"{v:.10g}" if isinstance(v, float | np.floating) else v for v in values]


def summary(study: Study) -> dict[str, Any]:
    """All numbers of a study but the predictions, in terms that JSON can hold."""
    data, net = study.data, study.net
    return {
        "data": {
            "name": data.name,
            "target": data.target,
            "task": "classification" if data.classes else "regression",
            "classes": list(data.classes),
            "features": list(data.features),
            "training rows": len(data.x_train),
            "test rows": len(data.x_test),
            "columns": [note._asdict() for note in data.columns],
            "notes": list(data.notes),
        },
        "network": _network(net, data.y_train.shape[1]),
        "training": {
            "algorithm": "gradient descent, half the sum of squared errors",
            "eta": study.algorithm.eta,
            "largest stable eta": study.largest_eta,
            "steps": _finite(study.algorithm.steps),
            "steps chosen on the training rows": study.stop_chosen,
            "ridge": study.ridge,
            "ridge chosen on the training rows": study.ridge_chosen,
        },
        "prediction": {
            "order": _order(study.law),
            "unit of the target": data.unit,
            "mean spread of networks": _known(study.spread.mean()),
            "label noise": data.unit * math.sqrt(study.noise),
        },
        "solver": _solver(study.law),
        "finite width": _finite_width(study),
        "no correction for finite width because": study.remark or None,
        "scores": _scores(study.scores),
        "scores at left-out training rows": _scores(study.left_out),
        "other methods": [_other(baseline) for baseline in study.baselines],
        "verification": None if study.verification is None else _verification(study.verification),
        "seed": study.choices.seed,
    }


def _network(net: Layer, outputs: int) -> dict[str, Any]:
    if not isinstance(net, MLP):
        return {"layers": net.spec, "outputs": outputs}
    return {
        "hidden": list(net.hidden),
        "activation": net.activation.name,
        "outputs": outputs,
        **{name: values.tolist() for name, values in net.hyperparameters._asdict().items()},
    }


def _order(law: Law) -> int | str:
    origin = law.provenance if isinstance(law, TrainedDistribution) else None
    return 0 if origin is None else origin.order


def _solver(law: Law) -> dict[str, Any]:
    if not isinstance(law, LargeLaw):
        return {"method": "direct"}
    report = {field.name: getattr(law.solve, field.name) for field in dataclasses.fields(law.solve)}
    known = {name: _known(value) if isinstance(value, float) else value for name, value in report.items()}
    return known | {"rows with variances": law.rows.tolist(), "variances": law.variance.tolist()}


def _finite_width(study: Study) -> dict[str, Any] | None:
    law = study.law
    if not isinstance(law, TrainedDistribution) or law.correction is None:
        return None
    rms = lambda a: study.data.unit * root_mean_square(a)
    variance = lambda a: None if a is None else study.data.unit**2 * root_mean_square(np.diag(np.asarray(a)))
    return {
        "correction of the mean (rms)": rms(law.mean_correction),
        "standard error (rms)": rms(law.mean_correction_error),
        "by origin (rms)": study.correction_sizes,
        "correction of the variance (rms)": variance(law.covariance_correction),
        "standard error of that (rms)": variance(law.covariance_correction_error),
        "samples": law.correction.samples,
        **dataclasses.asdict(law.validity),
        "words": law.validity.words,
    }


def _known(number: float) -> float | None:
    return None if math.isnan(number) else float(number)


def _finite(number: float | int) -> float | int | str:
    return number if math.isfinite(number) else "inf"


def _scores(scores: RegressionScores | ClassificationScores | None) -> dict[str, Any] | None:
    if scores is None:
        return None
    plain = {name: value for name, value in scores._asdict().items() if name != "calibration"}
    curve = {name: values.tolist() for name, values in scores.calibration._asdict().items()}
    return plain | {"calibration error": scores.calibration.error, "calibration": curve}


def _other(baseline: Baseline) -> dict[str, Any]:
    return {
        "name": baseline.name,
        "score": float(baseline.score.value),
        "standard error of score": float(baseline.score.sem),
        "rmse": baseline.rmse,
        "networks ahead by": float(baseline.ahead.value),
        "standard error of that": float(baseline.ahead.sem),
        "settings": baseline.settings,
    }


def _verification(check: Verification) -> dict[str, Any]:
    return {
        "networks": check.networks,
        "steps": check.steps,
        "dtype": "float32",
        "agrees": check.agrees,
        "alarms": list(check.alarms),
        "as a whole": _overall(check.overall),
        "limit in standard errors": check.z_limit,
        "mean, root mean square in standard errors": root_mean_square(check.z_mean),
        "mean, largest in standard errors": float(np.abs(check.z_mean).max()),
        "std, root mean square in standard errors": root_mean_square(check.z_std),
        "std, largest in standard errors": float(np.abs(check.z_std).max()),
        **_with_error("std, measured over predicted", check.std_ratio),
        **_with_error("std, measured over infinite width", check.infinite_std_ratio),
        **_with_error("shift, measured over predicted", check.correction_ratio),
        **_with_error("difference of means", check.difference),
        "difference of means from noise alone": check.noise,
        "expected from finite width, in order of magnitude": check.expected_difference,
        "remaining in standard errors": check.distance_to_end,
        "way that moved features have to go": check.unsettled,
        "words": str(check),
    }


def _overall(overall: Overall | None) -> dict[str, Any] | None:
    if overall is None:
        return None
    return {
        "directions": overall.directions,
        "false alarms of each test": RATE,
        "mean, probability": overall.mean,
        **_with_error("std, measured over predicted", overall.spread.ratio),
        "std, probability": overall.spread.p,
        "shape, probability": overall.shape,
        "error of the predicted std noticed in 95 of 100 cases": _attained(overall.spread.detectable),
    }


def _with_error(name: str, ratio: Ratio | None) -> dict[str, float | None]:
    value, sem = (None, None) if ratio is None else ratio
    return {name: value, f"{name}, standard error": sem}


def _attained(number: float) -> float | None:
    return number if math.isfinite(number) else None
