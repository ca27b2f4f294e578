"""Old places of public names and where they are now; the old ones work for one minor version, with a warning.

A package that has another name now is found by a finder of its own, asked when all others have failed.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

# Packages that have another name now; all below `finitewidth`.
PACKAGES = {
    "activations": "architecture.activations",
    "complexity": "course.entropy_and_widths.theory",
    "data": "tables",
    "diagnosis": "advice.diagnosis",
    "dynamics": "algorithms",
    "dynamics.algorithms": "algorithms",
    "dynamics.implicit_bias": "course.implicit_bias.theory",
    "dynamics.neuron_measures": "course.mean_field.theory",
    "dynamics.stochastic": "course.stochastic_gradients.theory",
    "lab.framework": "course._lab",
    "lab.instruments": "course._instruments",
    "lab.shapes": "course._lab.shapes",
    "linalg": "_base.linalg",
    "models": "architecture.models",
    "prediction.deep_linear": "prediction.methods.bayesian.deep_linear",
    "prediction.estimators": "estimators",
    "prediction.finite_width": "prediction.methods.first_order",
    "prediction.infinite_width": "prediction.methods.infinite_width",
    "prediction.large": "prediction.methods.large",
    "saving": "architecture.saving",
    "scale": "large",
    "serve": "course._server",
    "statistics.rules": "statistics.wide.rules",
    "study": "tables.study",
    "tuning": "advice.tuning",
}
# Names that left their package: old package, new package, names.
NAMES = {
    "dynamics": {
        "course.importance_and_influence.theory": "ImportanceEffect importance_effect",
        "course.kernel_regression.theory": "RidgeFit ridge_regression",
        "course.large_learning_rates.theory": (
            "CatapultPath CatapultPhases OnePointNetwork Phase QuadraticPhases ReluCatapult "
            "quadratic_phases relu_catapult"
        ),
        "course.mean_field.theory": (
            "MeanFieldFluctuations MinimisingMovement NeuronPopulation PopulationPath Transport "
            "infinite_population mean_field_fluctuations minimising_movement neuron_population "
            "potential_curvature sampled_population wasserstein"
        ),
        "course.optimiser_geometry.theory": (
            "SteepestStep balance_change equivariant_rates newton_schulz_steps newton_schulz_values "
            "steepest_step"
        ),
        "course.stochastic_gradients.theory": (
            "BatchFactors LabelNoisePath LeastSquaresSteadyState LineDensity NoisyDescent "
            "batch_covariance batch_factors best_schedule entropic_drift ito_density label_noise_path "
            "label_noise_penalty late_variance least_squares_steady_state noise_bound noisy_descent "
            "pass_covariance ring_walk sgd_step_limit steady_covariance step_density two_step_share "
            "valley_drift valley_variance variance_floor"
        ),
        "prediction": "FunctionSpaceTraining train_in_function_space",
    },
    "measure": {
        "course.large_learning_rates.networks": "TrainingPhase TrainingPhases training_phases",
        "course.stochastic_gradients.networks": (
            "FluctuationDissipation LabelNoiseRuns fluctuation_dissipation label_noise_runs"
        ),
    },
    "measure.regions": {
        "course.linear_regions.networks": "sawtooth",
    },
    "nearly_kernel_methods": {
        "course.quadratic_models.theory": "DualTrajectory FirstOrderFlow FlowWeights dual_descent",
    },
    "networks": {
        "course.architectures.networks": "drawn_token_correlations",
        "course.implicit_bias.networks": (
            "DiagonalWeights MarginTraining diagonal_descent diagonal_flow separable_flow train_to_margin"
        ),
        "course.importance_and_influence.networks": (
            "WeightedTraining logistic_flow ridge_logistic train_weighted"
        ),
        "course.lazy_training.networks": (
            "LinearisedPath ScaleSweep Task linearised_path teacher_task train_at_scales"
        ),
        "course.optimiser_geometry.networks": (
            "RescaledTraining balance layer_norms rescale steepest_descent train_rescaled"
        ),
    },
    "prediction": {
        "estimators": "DeepLinearRegressor NearlyKernelRegressor gpjax_kernel",
    },
    "report": {
        "advice.tuning": "phase_figure residual_tuning_figure save_figure tuning_figure",
    },
    "statistics": {
        "course.architectures.theory": "token_correlations",
        "course.deep_linear_networks.theory": "MarchenkoPastur",
        "course.linear_regions.theory": (
            "expected_breakpoints hyperplane_cells line_breakpoints most_regions reachable_regions "
            "sawtooth_pieces wide_breakpoints"
        ),
        "course.path_counting.theory": (
            "EigenvalueBounds JacobianMoments LogNorm exponential_growth jacobian_moments log_norm "
            "ntk_eigenvalue_bounds"
        ),
    },
}


def moved(package: str, name: str) -> Any:
    """What an old place stands for, with a warning that names the new one; AttributeError if it never did."""
    room = package.partition(".")[2]
    if f"{room}.{name}".lstrip(".") in PACKAGES:
        return importlib.import_module(f"{package}.{name}")
    homes = (home for home, names in NAMES.get(room, {}).items() if name in names.split())
    home = next(homes, PACKAGES.get(room))
    if home is None or name.startswith("_"):
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"finitewidth.{home}"), name)
    except AttributeError:
        raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
    warnings.warn(
        f"{package}.{name} is now finitewidth.{home}.{name}; the old place goes with the next minor version.",
        DeprecationWarning,
        stacklevel=_outside(),
    )
    return value


def _outside() -> int:
    """How many calls up the line stands that asked, outside of this machinery and of the import system."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("finitewidth._base.", "importlib", "_frozen_importlib")
    ):
        depth, frame = depth + 1, frame.f_back
    return depth


class _OldPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes an empty package in an old place, whose names are those of the new one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, room = fullname.partition(".")
        if package != "finitewidth" or room not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def __getattr__(name: str) -> Any:
            return moved(module.__name__, name)

        vars(module)["__getattr__"] = __getattr__


def find_old_packages() -> None:
    """Let `import finitewidth.OLD` find the packages that have another name now."""
    if not any(isinstance(finder, _OldPackages) for finder in sys.meta_path):
        sys.meta_path.append(_OldPackages())
