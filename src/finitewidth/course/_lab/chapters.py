"""The claims of the book: one package for each chapter, one module for each subject.

A module of a chapter lists its claims as `CLAIMS`; the registry finds them there.
"""

# Chapters in the order of the book: the package of each, and its title.
CHAPTERS = {
    "initialisation": "Initialisation",
    "the_wide_limit": "The wide limit",
    "criticality": "Criticality",
    "depth": "Depth",
    "architectures": "Architectures",
    "linear_regions": "Linear regions",
    "training": "Training",
    "widths_and_learning_rates": "Widths and learning rates",
    "linear_models": "Linear models",
    "kernel_regression": "Kernel regression",
    "tangent_kernel": "Tangent kernel",
    "lazy_training": "Lazy training",
    "mean_field": "Mean field",
    "large_learning_rates": "Large learning rates",
    "optimiser_geometry": "Geometry of optimisers",
    "stochastic_gradients": "Stochastic gradients",
    "trained_networks": "Trained networks",
    "importance_and_influence": "Importance weights and influence",
    "loss_landscape": "Loss landscape",
    "quadratic_models": "Quadratic models",
    "implicit_bias": "Implicit bias",
    "nearly_kernel_methods": "Nearly-kernel methods",
    "representation_learning": "Representation learning",
    "networks_as_nearly_kernel_machines": "Networks as nearly-kernel machines",
    "finite_width_at_initialisation": "Finite width at initialisation",
    "path_counting": "Path counting",
    "deep_linear_networks": "Deep linear networks",
    "entropy_and_widths": "Entropy and widths",
    "finite_width_after_training": "Finite width after training",
}
