"""Wrong calls of the public names: one sentence of this package each, no other library's words."""

import math
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import finitewidth as fw
from finitewidth.estimators.nearly_kernel_regressor import NearlyKernelRegressor
from finitewidth.estimators.wide_network import NTKRegressor

X = np.random.default_rng(0).normal(size=(6, 2))
Y, X_TEST = np.sin(X[:, 0]), X[:2] + 0.3
NAN = np.where(np.arange(12).reshape(6, 2) == 2, np.nan, X)
KEY = jax.random.key(0)
NET = fw.MLP((8, 8), "tanh")
PARAMS = NET.init(KEY, 2)
LAW = fw.predict(NET, X, Y, X_TEST, ridge=0.1)
PROBLEM = fw.TrainingProblem.of(NET, X, Y, X_TEST)

CALLS = {
    "MLP negative width": (
        lambda: fw.MLP((8, -1), "tanh"),
        "hidden must hold positive whole numbers, got (8, -1).",
    ),
    "MLP float width": (
        lambda: fw.MLP((8.5,), "tanh"),
        "hidden must hold positive whole numbers, got (8.5,).",
    ),
    "MLP int hidden": (
        lambda: fw.MLP(8, "tanh"),
        "hidden must be a sequence of widths, such as (8,), got 8.",
    ),
    "MLP str hidden": (
        lambda: fw.MLP("64x2", "tanh"),
        "hidden must be a sequence of widths, such as (64, 64), got '64x2'.",
    ),
    "MLP None hidden": (
        lambda: fw.MLP(None, "tanh"),
        "hidden must be a sequence of widths, such as (64, 64), got None.",
    ),
    "MLP list of None": (
        lambda: fw.MLP((None,), "tanh"),
        "hidden must hold positive whole numbers, got (None,).",
    ),
    "MLP nan width": (
        lambda: fw.MLP((float("nan"),), "tanh"),
        "hidden must hold positive whole numbers, got (nan,).",
    ),
    "MLP activation None": (
        lambda: fw.MLP((8,), None),
        "activation must be a name, a function or an Activation, got None.",
    ),
    "MLP activation 3": (
        lambda: fw.MLP((8,), 3),
        "activation must be a name, a function or an Activation, got 3.",
    ),
    "MLP activation empty": (
        lambda: fw.MLP((8,), ""),
        "unknown activation ''. Known: linear, relu, leaky_relu, abs, step,",
    ),
    "MLP C_b str": (
        lambda: fw.MLP((8,), "tanh", "a", 1.0),
        "C_b must be a number, or one per affine layer, got 'a'.",
    ),
    "MLP C_b None only": (
        lambda: fw.MLP((8,), "tanh", 0.1),
        "C_b was given without C_W: pass both, or neither for the critical point.",
    ),
    "MLP C_b complex": (
        lambda: fw.MLP((8,), "tanh", 1j, 1.0),
        "C_b must be a number, or one per affine layer, got 1j.",
    ),
    "MLP C_W ragged": (
        lambda: fw.MLP((8,), "tanh", 0.1, [[1.0], [1.0, 2.0]]),
        "C_W must be a number, or one per affine layer, got [[1.0], [1.0, 2.0]].",
    ),
    "MLP C_W wrong length": (
        lambda: fw.MLP((8,), "tanh", 0.1, [1.0, 2.0, 3.0]),
        "C_W has shape (3,); give one number, or 2 of them (one per affine",
    ),
    "MLP lambda nan": (
        lambda: fw.MLP((8,), "tanh", 0.1, 1.0, lambda_b=float("nan")),
        "lambda_b must be finite and zero or positive, got nan.",
    ),
    "MLP lambda None": (
        lambda: fw.MLP((8,), "tanh", 0.1, 1.0, lambda_b=None),
        "lambda_b must be a number, or one per affine layer, got None.",
    ),
    "MLP n_out 0": (
        lambda: fw.MLP((8,), "tanh", n_out=0),
        "n_out must be a whole number of at least 1, got 0.",
    ),
    "MLP n_out str": (
        lambda: fw.MLP((8,), "tanh", n_out="2"),
        "n_out must be a whole number of at least 1, got '2'.",
    ),
    "MLP parametrisation": (
        lambda: fw.MLP((8,), "tanh", parametrisation="mupp"),
        "unknown parametrisation 'mupp'. Known: ntk, standard, mean-field, mup, mup:BASE_WIDTH.",
    ),
    "MLP parametrisation None": (
        lambda: fw.MLP((8,), "tanh", parametrisation=None),
        "unknown parametrisation None. Known: ntk, standard, mean-field, mup, mup:BASE_WIDTH.",
    ),
    "init int key": (lambda: NET.init(0, 2), "key must be one key, such as jax.random.key(0), got 0."),
    "init n_in 0": (lambda: NET.init(KEY, 0), "n_in must be a whole number of at least 1, got 0."),
    "init n_in None": (lambda: NET.init(KEY, None), "n_in must be a whole number of at least 1, got None."),
    "init dtype int": (
        lambda: NET.init(KEY, 2, dtype=int),
        "dtype must be float64 or float32, got <class 'int'>.",
    ),
    "init dtype str": (lambda: NET.init(KEY, 2, dtype="foo"), "dtype must be float64 or float32, got 'foo'."),
    "init weights": (
        lambda: NET.init(KEY, 2, weights="gauss"),
        "unknown weights 'gauss'. Known: gaussian, uniform, truncated,",
    ),
    "apply 1d": (
        lambda: NET.apply(PARAMS, X[0]),
        "x must be an array of shape (points, features), got (2,).",
    ),
    "apply list": (
        lambda: NET.apply(PARAMS, X.tolist()),
        "x must be an array of shape (points, features), got list.",
    ),
    "apply wrong features": (
        lambda: NET.apply(PARAMS, np.ones((3, 5))),
        "params[0].weight has shape (8, 2); this network with 5 inputs needs (8, 5).",
    ),
    "kernels None": (lambda: fw.kernels(NET, None), "x1 is not an array of numbers."),
    "kernels str": (lambda: fw.kernels(NET, "abc"), "x1 is not an array of numbers."),
    "kernels ragged": (
        lambda: fw.kernels(NET, [[1.0], [1.0, 2.0]]),
        "x1 is not an array of numbers: its rows have between 1 and 2 entries.",
    ),
    "kernels complex": (lambda: fw.kernels(NET, X + 1j), "x1 must be real, got complex128."),
    "kernels sparse": (
        lambda: fw.kernels(NET, sp.csr_matrix(X)),
        "x1 is sparse, and kernels are dense: pass x1.toarray().",
    ),
    "kernels dict": (
        lambda: fw.kernels(NET, {"a": 1}),
        "x1 is a dictionary; it must be one array of numbers.",
    ),
    "kernels 1d": (
        lambda: fw.kernels(NET, Y),
        "x1 must have shape (points, features), got (6,); reshape it to (6, 1) for one feature.",
    ),
    "kernels 3d": (
        lambda: fw.kernels(NET, X[None]),
        "x1 must have shape (points, features) for an MLP, got (1, 6, 2): use fw.Sequential(",
    ),
    "kernels empty": (lambda: fw.kernels(NET, np.zeros((0, 2))), "x1 is empty: its shape is (0, 2)."),
    "kernels []": (lambda: fw.kernels(NET, []), "x1 is empty: its shape is (0,)."),
    "kernels nan": (
        lambda: fw.kernels(NET, NAN),
        "x1 holds NaN or infinite values in 1 of 6 rows, first in row 1.",
    ),
    "kernels object": (
        lambda: fw.kernels(NET, np.array([[1, "a"]], dtype=object)),
        "x1 is not an array of numbers.",
    ),
    "kernels other features": (
        lambda: fw.kernels(NET, X, np.ones((2, 3))),
        "x1 has 2 features and x2 has 3; they must agree.",
    ),
    "kernels tolerance str": (
        lambda: fw.kernels(NET, X, tolerance="a"),
        "tolerance must be a positive number, got 'a'.",
    ),
    "kernels tolerance 0": (
        lambda: fw.kernels(NET, X, tolerance=0),
        "tolerance must be a positive number, got 0.",
    ),
    "kernels terms 0": (
        lambda: fw.kernels(NET, X, terms=0),
        "terms must be a whole number of at least 1, got 0.",
    ),
    "kernels terms -3": (
        lambda: fw.kernels(NET, X, terms=-3),
        "terms must be a whole number of at least 1, got -3.",
    ),
    "kernels terms str": (
        lambda: fw.kernels(NET, X, terms="many"),
        "terms must be a whole number of at least 1, got 'many'.",
    ),
    "predict problem and data": (
        lambda: fw.predict(PROBLEM, X),
        "a TrainingProblem holds its data: leave out x_train, y_train and x_test.",
    ),
    "predict no data": (lambda: fw.predict(NET), "x_train is not an array of numbers."),
    "predict y None": (lambda: fw.predict(NET, X, None, X_TEST), "y_train is not an array of numbers."),
    "predict y str": (lambda: fw.predict(NET, X, ["a"] * 6, X_TEST), "y_train is not an array of numbers."),
    "predict y complex": (
        lambda: fw.predict(NET, X, Y + 1j, X_TEST),
        "y_train must be real, got complex128.",
    ),
    "predict y 3d": (
        lambda: fw.predict(NET, X, np.ones((6, 1, 1)), X_TEST),
        "y_train has shape (6, 1, 1); 6 points need (6,) or (6, outputs).",
    ),
    "predict y scalar": (
        lambda: fw.predict(NET, X, 1.0, X_TEST),
        "y_train has shape (); 6 points need (6,) or (6, outputs).",
    ),
    "predict alg str": (
        lambda: fw.predict(NET, X, Y, X_TEST, "adam"),
        "algorithm must be GradientDescent(), GradientFlow(),",
    ),
    "predict alg class": (
        lambda: fw.predict(NET, X, Y, X_TEST, fw.GradientFlow),
        "algorithm must be GradientDescent(), GradientFlow(),",
    ),
    "predict order str": (
        lambda: fw.predict(NET, X, Y, X_TEST, order="1"),
        "for activations with kinks), got '1'.",
    ),
    "predict order True": (
        lambda: fw.predict(NET, X, Y, X_TEST, order=True),
        "for activations with kinks), got True.",
    ),
    "predict order 1.0": (
        lambda: fw.predict(NET, X, Y, X_TEST, order=1.0),
        "for activations with kinks), got 1.0.",
    ),
    "predict order list": (
        lambda: fw.predict(NET, X, Y, X_TEST, order=[1]),
        "for activations with kinks), got [1].",
    ),
    "predict ridge str": (
        lambda: fw.predict(NET, X, Y, X_TEST, ridge="auto"),
        "ridge must be zero or more, and finite, got 'auto'.",
    ),
    "predict ridge None": (
        lambda: fw.predict(NET, X, Y, X_TEST, ridge=None),
        "ridge must be zero or more, and finite, got None.",
    ),
    "predict ridge nan": (
        lambda: fw.predict(NET, X, Y, X_TEST, ridge=float("nan")),
        "ridge must be zero or more, and finite, got nan.",
    ),
    "predict ridge inf": (
        lambda: fw.predict(NET, X, Y, X_TEST, ridge=math.inf),
        "ridge must be zero or more, and finite, got inf.",
    ),
    "kernels given ridge inf": (
        lambda: fw.predict_from_kernels(*3 * [fw.Kernels(np.eye(2), np.eye(2))], np.ones(2), ridge=math.inf),
        "ridge must be zero or more, and finite, got inf.",
    ),
    "predict ragged x": (
        lambda: fw.predict(NET, [[1.0, 2.0], [3.0]], [1.0, 2.0], X_TEST),
        "x_train is not an array of numbers: its rows have between 1 and 2 entries.",
    ),
    "predict ragged x_test": (
        lambda: fw.predict(NET, X, Y, [[1.0, 2.0], [3.0]]),
        "x_test is not an array of numbers: its rows have between 1 and 2 entries.",
    ),
    "predict ragged y": (
        lambda: fw.predict(NET, X[:2], [[1.0, 2.0], [3.0]], X_TEST),
        "y_train is not an array of numbers: its rows have between 1 and 2 entries.",
    ),
    "predict ridge array": (
        lambda: fw.predict(NET, X, Y, X_TEST, ridge=np.ones(6)),
        "ridge must be zero or more, and finite, got array([1., 1., 1., 1., 1., 1.]).",
    ),
    "predict method str": (
        lambda: fw.predict(NET, X, Y, X_TEST, order=1, method="dense"),
        "MeanField() or TrainedNetworks(), got 'dense'.",
    ),
    "predict method class": (
        lambda: fw.predict(NET, X, Y, X_TEST, order=1, method=fw.SampledNeurons),
        "MeanField() or TrainedNetworks(), got <class",
    ),
    "predict initial number": (
        lambda: fw.predict(NET, X, Y, X_TEST, initial=3.0),
        "initial must be a function, or its outputs on (x_train, x_test), got 3.0.",
    ),
    "predict initial str": (
        lambda: fw.predict(NET, X, Y, X_TEST, initial="zero"),
        "initial must be a function, or its outputs on (x_train, x_test), got 'zero'.",
    ),
    "predict initial fn 1 out": (
        lambda: fw.predict(NET, X, Y, X_TEST, initial=lambda points: 0.0),
        "initial on x_train has shape (); 6 points need (6,) or (6, outputs).",
    ),
    "GD eta str": (
        lambda: fw.GradientDescent("fast"),
        "eta must be \"auto\" or a positive number, got 'fast'.",
    ),
    "GD eta None": (lambda: fw.GradientDescent(None), 'eta must be "auto" or a positive number, got None.'),
    "GD steps str": (
        lambda: fw.GradientDescent(0.1, "10"),
        "steps must be a whole number, zero or more, or infinity, got '10'.",
    ),
    "GD steps None": (
        lambda: fw.GradientDescent(0.1, None),
        "steps must be a whole number, zero or more, or infinity, got None.",
    ),
    "GD steps 2.5": (
        lambda: fw.GradientDescent(0.1, 2.5),
        "steps must be a whole number, zero or more, or infinity, got 2.5.",
    ),
    "GD steps 2**63": (
        lambda: fw.GradientDescent(0.1, 2**63),
        "steps must be below 2**63, or infinity for the end of training, got 9223372036854775808.",
    ),
    "GD steps 1e30": (
        lambda: fw.GradientDescent(0.1, 1e30),
        "steps must be below 2**63, or infinity for the end of training, got 1e+30.",
    ),
    "Activation of whole numbers": (
        lambda: fw.Activation(lambda z: jnp.floor(z).astype(int), name="floor"),
        "activation 'floor' turned an array of float64 into one of int64; it must return real numbers of the "
        "type that it was given.",
    ),
    "Activation of truths": (
        lambda: fw.Activation(lambda z: z > 0, name="positive"),
        "activation 'positive' turned an array of float64 into one of bool; it must return",
    ),
    "Activation of complex numbers": (
        lambda: fw.Activation(lambda z: jnp.exp(1j * z), name="wave"),
        "activation 'wave' turned an array of float64 into one of complex128; it must return",
    ),
    "GF time str": (lambda: fw.GradientFlow("1"), "time must be zero or more, got '1'."),
    "GF time None": (lambda: fw.GradientFlow(None), "time must be zero or more, got None."),
    "DO solution": (
        lambda: fw.DirectOptimization("best"),
        "solution must be one of row-space, gauss-newton, minimum-norm, got 'best'.",
    ),
    "DO step str": (
        lambda: fw.DirectOptimization("gauss-newton", "a"),
        "step must be a fraction between 0 and 1, got 'a'.",
    ),
    "Bayes str": (lambda: fw.BayesianInference("a"), "noise must be a variance, zero or more, got 'a'."),
    "Bayes None": (lambda: fw.BayesianInference(None), "noise must be a variance, zero or more, got None."),
    "SN key int": (
        lambda: fw.SampledNeurons(key=0),
        "key must be one key, such as jax.random.key(0), got 0.",
    ),
    "SN err str": (lambda: fw.SampledNeurons("a"), "relative_error must be positive, got 'a'."),
    "evidence noise str": (
        lambda: fw.evidence(NET, X, Y, "a"),
        "noise must be a variance, zero or more, got 'a'.",
    ),
    "evidence noise -1": (
        lambda: fw.evidence(NET, X, Y, -1.0),
        "noise must be a variance, zero or more, got -1.0.",
    ),
    "evidence noise None": (
        lambda: fw.evidence(NET, X, Y, None),
        "noise must be a variance, zero or more, got None.",
    ),
    "sample int key": (lambda: LAW.sample(0, 3), "key must be one key, such as jax.random.key(0), got 0."),
    "sample keys": (
        lambda: LAW.sample(jax.random.split(KEY, 2), 3),
        "key must be one key, such as jax.random.key(0), got 2 keys.",
    ),
    "sample n float": (lambda: LAW.sample(KEY, 2.5), "n must be a whole number of at least 0, got 2.5."),
    "sample n -1": (lambda: LAW.sample(KEY, -1), "n must be a whole number of at least 0, got -1."),
    "expected_loss shape": (
        lambda: LAW.expected_loss(np.ones((5, 1))),
        "y has shape (5, 1); 2 points need (2,) or (2, outputs).",
    ),
    "verify networks str": (
        lambda: fw.verify(LAW, "3"),
        "networks must be a whole number or \"enough\", got '3'.",
    ),
    "verify networks 1": (lambda: fw.verify(LAW, 1), "networks must be at least 3 to have a spread, got 1."),
    "verify networks 3.5": (
        lambda: fw.verify(LAW, 3.5),
        "networks must be a whole number of at least 1, got 3.5.",
    ),
    "verify key int": (
        lambda: fw.verify(LAW, 3, key=0),
        "key must be one key, such as jax.random.key(0), got 0.",
    ),
    "verify too many": (
        lambda: fw.verify(LAW, 10**12),
        "networks must be at most 10,000,000, got 1,000,000,000,000: so much work is not begun.",
    ),
    "train_ensemble too many": (
        lambda: fw.train_ensemble(NET, KEY, 10_000_001, X, Y, steps=1, learning_rate=0.1),
        "size must be at most 10,000,000, got 10,000,001: so much work is not begun.",
    ),
    "TrainedNetworks too many": (
        lambda: fw.TrainedNetworks(10**12),
        "networks must be at most 10,000,000, got 1,000,000,000,000",
    ),
    "verify dtype int": (
        lambda: fw.verify(LAW, 3, dtype=int),
        "dtype must be float64 or float32, got <class 'int'>.",
    ),
    "verify most_steps": (
        lambda: fw.verify(LAW, 3, most_steps=0),
        "most_steps must be a whole number of at least 1, got 0.",
    ),
    "verify none": (lambda: fw.verify(None), "law must be what finitewidth.predict returned, got NoneType."),
    "train steps 0": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=0, learning_rate=0.1),
        "steps must be a whole number of at least 1, got 0.",
    ),
    "train steps float": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2.5, learning_rate=0.1),
        "steps must be a whole number of at least 1, got 2.5.",
    ),
    "train steps str": (
        lambda: fw.train(NET, PARAMS, X, Y, steps="2", learning_rate=0.1),
        "steps must be a whole number of at least 1, got '2'.",
    ),
    "train lr none": (lambda: fw.train(NET, PARAMS, X, Y, steps=2), "optimizer 'sgd' needs a learning_rate."),
    "train lr str": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate="a"),
        "learning_rate must be positive and finite, got 'a'.",
    ),
    "train y None": (
        lambda: fw.train(NET, PARAMS, X, None, steps=2, learning_rate=0.1),
        "y must hold numbers, got object.",
    ),
    "train y ragged": (
        lambda: fw.train(NET, PARAMS, X, [[1], [1, 2], [3], [4], [5], [6]], steps=2, learning_rate=0.1),
        "y is not an array of numbers.",
    ),
    "train y short": (
        lambda: fw.train(NET, PARAMS, X, Y[:3], steps=2, learning_rate=0.1),
        "y has 3 labels for 6 points.",
    ),
    "train opt": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate=0.1, optimizer="adamw"),
        "unknown optimizer 'adamw'. Known: sgd, momentum, nesterov, adam, sign, muon; or",
    ),
    "train opt none": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate=0.1, optimizer=None),
        "optimizer must be a name or an Optax transformation, got None.",
    ),
    "train loss": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate=0.1, loss="l1"),
        "unknown loss 'l1'. Known: mse, cross_entropy, logistic, exponential;",
    ),
    "train loss none": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate=0.1, loss=None),
        "unknown loss None. Known: mse, cross_entropy, logistic, exponential;",
    ),
    "train loss bad fn": (
        lambda: fw.train(
            NET, PARAMS, X, Y, steps=2, learning_rate=0.1, loss=lambda outputs, labels: outputs - labels
        ),
        "loss '<lambda>' must return one number, a sum over points, got shape (6, 6).",
    ),
    "train batch str": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate=0.1, batch_size="a", key=KEY),
        "batch_size must be a whole number of at least 1, got 'a'.",
    ),
    "train batch key int": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate=0.1, batch_size=2, key=0),
        "key must be one key, such as jax.random.key(0), got 0.",
    ),
    "train rates": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate=0.1, rates="fast"),
        "unknown rates 'fast'. Known: gradient, entrywise, spectral; or a tree of numbers.",
    ),
    "train record": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate=0.1, record=["foo"]),
        "unknown observable 'foo'. Known: loss, outputs, ntk; for anything",
    ),
    "train record_every": (
        lambda: fw.train(NET, PARAMS, X, Y, steps=2, learning_rate=0.1, record_every="a"),
        "record_every must be a whole number of at least 1, got 'a'.",
    ),
    "train params None": (
        lambda: fw.train(NET, None, X, Y, steps=2, learning_rate=0.1),
        "params has NoneType; this network has 3 affine layers.",
    ),
    "train params other": (
        lambda: fw.train(NET, PARAMS[:2], X, Y, steps=2, learning_rate=0.1),
        "params has 2 entries; this network has 3 affine layers.",
    ),
    "ens size 0": (
        lambda: fw.train_ensemble(NET, KEY, 0, X, Y, steps=2, learning_rate=0.1),
        "size must be a whole number of at least 1, got 0.",
    ),
    "ens size str": (
        lambda: fw.train_ensemble(NET, KEY, "3", X, Y, steps=2, learning_rate=0.1),
        "size must be a whole number of at least 1, got '3'.",
    ),
    "ens size float": (
        lambda: fw.train_ensemble(NET, KEY, 2.5, X, Y, steps=2, learning_rate=0.1),
        "size must be a whole number of at least 1, got 2.5.",
    ),
    "ens key": (
        lambda: fw.train_ensemble(NET, 3, 3, X, Y, steps=2, learning_rate=0.1),
        "key must be one key, such as jax.random.key(0), got 3.",
    ),
    "ens x_test": (
        lambda: fw.train_ensemble(NET, KEY, 3, X, Y, np.ones((2, 5)), steps=2, learning_rate=0.1),
        "params[0].weight has shape (8, 2); this network with 5 inputs needs (8, 5).",
    ),
    "ens memory": (
        lambda: fw.train_ensemble(NET, KEY, 3, X, Y, steps=2, learning_rate=0.1, memory_limit=1),
        "memory_limit=1 bytes is too small: 32 networks at a time take about 212736 bytes.",
    ),
    "ens memory str": (
        lambda: fw.train_ensemble(NET, KEY, 3, X, Y, steps=2, learning_rate=0.1, memory_limit="1GB"),
        "memory_limit must be a whole number of at least 1, got '1GB'.",
    ),
    "ens y class": (
        lambda: fw.train_ensemble(NET, KEY, 3, X, ["a"] * 6, steps=2, learning_rate=0.1),
        "y must hold numbers, got <U1.",
    ),
    "entk x None": (lambda: fw.empirical_ntk(NET, PARAMS, None), "x1 is not an array of numbers."),
    "entk x str": (lambda: fw.empirical_ntk(NET, PARAMS, "a"), "x1 is not an array of numbers."),
    "entk x nan": (lambda: fw.empirical_ntk(NET, PARAMS, NAN), "x1 holds NaN or infinite values."),
    "entk rates": (
        lambda: fw.empirical_ntk(NET, PARAMS, X, rates={"a": 1.0}),
        "rates is a tree PyTreeDef({'a': *}) that does not fit params,",
    ),
    "entk rates str": (
        lambda: fw.empirical_ntk(NET, PARAMS, X, rates="fast"),
        "rates must be one number, or a tree with one per leaf of params, got 'fast'.",
    ),
    "entk memory": (
        lambda: fw.empirical_ntk(NET, PARAMS, X, memory_limit=0),
        "memory_limit=0 bytes is too small: the gradients of two inputs take 800 bytes.",
    ),
    "dntk vectors": (
        lambda: fw.empirical_dntk(NET, PARAMS, X, vectors=[np.ones(3)]),
        "the vector of leg 2 has shape (3,); it must be (6, 1).",
    ),
    "expand order": (lambda: fw.expand(NET, PARAMS, 0), "order must be a whole number of at least 1, got 0."),
    "expand order str": (
        lambda: fw.expand(NET, PARAMS, "2"),
        "order must be a whole number of at least 1, got '2'.",
    ),
    "corrections many": (
        lambda: fw.corrections(NET, np.ones((30, 2))),
        "x has 30 points; the dense tensors are limited to 20. For more points",
    ),
    "corrections tol": (
        lambda: fw.corrections(NET, X[:2], tolerance="a"),
        "tolerance must be a positive number, got 'a'.",
    ),
    "tune depth str": (lambda: fw.tune("relu", "3", 64), "depth must be a positive whole number, got '3'."),
    "tune depth None": (
        lambda: fw.tune("relu", None, 64),
        "depth must be a positive whole number, got None.",
    ),
    "tune width 0": (lambda: fw.tune("relu", 3, 0), "width must be a positive whole number, got 0."),
    "tune x 1d": (
        lambda: fw.tune("relu", 3, 64, Y),
        "x must have shape (points, features), got (6,); reshape it to (6, 1) for one feature.",
    ),
    "tune n_in neg": (
        lambda: fw.tune("relu", 3, 64, n_in=-1),
        "n_in must be a positive whole number, got -1.",
    ),
    "tune C_b": (lambda: fw.tune("relu", 3, 64, C_b=0.1), "pass both C_b and C_W, or neither."),
    "tune C_b str": (
        lambda: fw.tune("relu", 3, 64, C_b="a", C_W=1.0),
        "C_b must be a number, or one per affine layer, got 'a'.",
    ),
    "tune step": (
        lambda: fw.tune("step", 3, 64, C_b=0.1, C_W=1.0),
        "activation 'step' lets no gradient through at C_b = 0.1, C_W = 1: no",
    ),
    "crit None": (
        lambda: fw.criticality(None),
        "activation must be a name, a function or an Activation, got None.",
    ),
    "crit str": (
        lambda: fw.criticality("foo"),
        "unknown activation 'foo'. Known: linear, relu, leaky_relu, abs, step,",
    ),
    "susc": (lambda: fw.susceptibilities("relu", -1.0, 1.0), "K must be finite and positive, got -1.0."),
    "susc str": (lambda: fw.susceptibilities("relu", "a", 1.0), "K is not an array of numbers."),
    "fixed_point neg": (lambda: fw.fixed_point("tanh", -0.1, 1.0), "C_b must be zero or positive, got -0.1."),
    "fixed_point str": (lambda: fw.fixed_point("tanh", "a", 1.0), "C_b must be zero or positive, got 'a'."),
    "corr len": (
        lambda: fw.correlation_lengths("tanh", None, 1.0),
        "C_b must be zero or positive, got None.",
    ),
    "phase": (lambda: fw.phase_diagram("tanh", "a", "b"), "C_W is not an array of numbers."),
    "depth_growth sq": (lambda: fw.depth_growth(NET, -1.0), "square must be finite and positive, got -1.0."),
    "depth_growth str": (lambda: fw.depth_growth(NET, "a"), "square must be finite and positive, got 'a'."),
    "vertex_slope None": (
        lambda: fw.vertex_slope(None),
        "activation must be a name, a function or an Activation, got None.",
    ),
    "loss_curves law": (
        lambda: fw.loss_curves(LAW, fw.GradientFlow(), [1.0]),
        "problem must be what TrainingProblem.of returned, got TrainedDistribution.",
    ),
    "loss_curves times": (
        lambda: fw.loss_curves(PROBLEM, fw.GradientFlow(), "a"),
        "at is not an array of numbers.",
    ),
    "loss_curves neg": (
        lambda: fw.loss_curves(PROBLEM, fw.GradientFlow(), [-1.0]),
        "time must be zero or more, got -1.",
    ),
    "loss_curves y": (
        lambda: fw.loss_curves(PROBLEM, fw.GradientFlow(), [1.0], [1.0, 2.0, 3.0]),
        "y_test has shape (3, 1); 2 points need (2,) or (2, outputs).",
    ),
    "nk shape": (
        lambda: fw.nearly_kernel(
            np.eye(3),
            np.ones((2, 2)),
            np.zeros((3, 3, 3)),
            np.zeros((2, 3, 3)),
            np.zeros((3, 2, 3)),
            np.ones(3),
        ),
        "k_test has shape (2, 2); its columns are the 3 training points of k_train.",
    ),
    "nk str": (
        lambda: fw.nearly_kernel(
            "a", np.ones((2, 3)), np.zeros((3, 3, 3)), np.zeros((2, 3, 3)), np.zeros((3, 2, 3)), np.ones(3)
        ),
        "k_train is not an array of numbers.",
    ),
    "nkm model": (
        lambda: fw.nearly_kernel_machine(NET, X, Y, X_TEST),
        "model must be a QuadraticModel or its kin, or a TangentModel, got",
    ),
    "nkm y": (
        lambda: fw.nearly_kernel_machine(fw.TangentModel(NET.apply, PARAMS), X, Y[:2], X_TEST),
        "y has shape (2, 1); 6 points need (6,) or (6, outputs).",
    ),
    "nkm y str": (
        lambda: fw.nearly_kernel_machine(fw.TangentModel(NET.apply, PARAMS), X, ["a"] * 6, X_TEST),
        "y is not an array of numbers.",
    ),
    "nkm x 1d": (
        lambda: fw.nearly_kernel_machine(fw.TangentModel(NET.apply, PARAMS), X[0], Y, X_TEST),
        "x must be an array of shape (points, features), got (2,).",
    ),
    "TM order": (
        lambda: fw.TangentModel(NET.apply, PARAMS, order=0),
        "order must be a whole number of at least 1, or None, got 0.",
    ),
    "TM eps str": (
        lambda: fw.TangentModel(NET.apply, PARAMS, epsilon="a"),
        "epsilon is not an array of numbers.",
    ),
    "NTKReg ridge str": (
        lambda: NTKRegressor(ridge="x").fit(X, Y),
        "ridge must be \"auto\" or a number, zero or more, got 'x'.",
    ),
    "NTKReg depth str": (
        lambda: NTKRegressor(depth="3").fit(X, Y),
        "depth must be a whole number of affine layers, 1 or more, got '3'.",
    ),
    "NTKReg C_b str": (
        lambda: NTKRegressor(C_b="a").fit(X, Y),
        "C_b must be a number, or one per affine layer, got 'a'.",
    ),
    "NTKReg act None": (
        lambda: NTKRegressor(activation=None).fit(X, Y),
        "activation must be a name, a function or an Activation, got None.",
    ),
    "NTKReg sample n": (
        lambda: NTKRegressor().fit(X, Y).sample_y(X, "a"),
        "n must be a whole number of at least 0, got 'a'.",
    ),
    "NKR eps": (
        lambda: NearlyKernelRegressor(epsilon="best").fit(X, Y),
        'epsilon must be a number, "cv" or "epsilon*", got \'best\'.',
    ),
    "NKR neurons": (
        lambda: NearlyKernelRegressor(neurons=0).fit(X, Y),
        "neurons must be a whole number of at least 1, got 0.",
    ),
    "NKR ridge": (
        lambda: NearlyKernelRegressor(ridge="auto").fit(X, Y),
        "ridge must be zero or more, and finite, got 'auto'.",
    ),
    "Activation None": (
        lambda: fw.Activation(None),
        "Activation needs a function of an array, got None; for a built-in",
    ),
    "Activation name": (
        lambda: fw.Activation("tanh"),
        "Activation needs a function of an array, got 'tanh'; for a built-in",
    ),
    "Activation not elem": (
        lambda: fw.Activation(jnp.sum),
        "activation 'sum' turned an array of shape (880,) into shape (); it must act elementwise.",
    ),
    "Activation np": (
        lambda: fw.Activation(np.tanh),
        "activation 'tanh' must be a function of one array, written with",
    ),
    "Activation inf": (
        lambda: fw.Activation(jnp.log),
        "activation 'log' or its derivative is not finite at z = -12.5 (440 of",
    ),
    "Activation math": (
        lambda: fw.Activation(math.tanh),
        "activation 'tanh' must be a function of one array, written with",
    ),
    "law save None": (lambda: LAW.save(None), "path must be the name of a file, got None."),
    "load None": (lambda: fw.load(None), "path must be the name of a file, got None."),
    "load int": (lambda: fw.load(3), "path must be the name of a file, got 3."),
    "Ensemble load": (lambda: fw.Ensemble.load("none.npz"), "there is no file none.npz."),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("unchecked_annotations")
def test_a_wrong_call_gets_one_sentence(name):
    call, sentence = CALLS[name]
    with pytest.raises((ValueError, TypeError, OSError)) as refusal:
        call()
    words = str(refusal.value)
    assert sentence in words
    assert words.endswith(".")
    assert "\n" not in words
    assert "np." not in words
    last = traceback.extract_tb(refusal.value.__traceback__)[-1]
    assert "/finitewidth/" in last.filename


def test_sentences_of_scikit_learn_stay():
    """Its own contract asks for them."""
    with pytest.raises(TypeError, match=r"Sparse data was passed for X.*toarray"):
        NTKRegressor().fit(sp.csr_matrix(X), Y)
