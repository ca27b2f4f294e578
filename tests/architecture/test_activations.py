"""Names, families and user functions; what is refused and in which words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
import oracle
from finitewidth.architecture.activations import as_activation, leaky_relu, monomial
from finitewidth.expectations.closed_forms import PiecewiseLinear
from finitewidth.expectations.hermite import HermiteSeries
from tolerances import assert_close


def test_the_public_names():
    expected = (
        "linear relu leaky_relu abs step erf sin cos gelu tanh sigmoid softplus silu elu selu mish "
        "relu6 hard_tanh hard_sigmoid"
    )
    assert tuple(expected.split()) == fw.ACTIVATION_NAMES


@pytest.mark.parametrize("name", fw.ACTIVATION_NAMES)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_functions_are_what_their_names_say(name, dtype):
    z = jnp.linspace(-9, 9, 97, dtype=dtype)
    found = as_activation(name)(z)
    assert found.dtype == dtype
    assert_close(found, oracle.NEURONS[name].value(np.asarray(z, float)).astype(dtype))


@pytest.mark.parametrize(
    ("alias", "name"),
    [("identity", "linear"), ("swish", "silu"), (" ReLU ", "relu"), ("Hardtanh", "hard_tanh")],
)
def test_aliases(alias, name):
    assert as_activation(alias) is as_activation(name)


@pytest.mark.parametrize("slope", [-0.5, 0.0, 0.2, 1])
def test_leaky_relu_family(slope):
    activation = as_activation(f"leaky_relu:{slope}")
    assert activation is leaky_relu(float(slope))
    z = jnp.array([-2.0, 3.0])
    assert_close(activation(z), [-2.0 * slope, 3.0])
    assert activation.closed_form == PiecewiseLinear(float(slope), 1.0)


@pytest.mark.parametrize("power", [1, 2, 5])
def test_monomial_family(power):
    assert as_activation(f"monomial:{power}").name == monomial(power).name == f"monomial:{power}"
    assert_close(monomial(power)(jnp.array([-2.0, 1.5])), [(-2.0) ** power, 1.5**power])


def test_user_functions_use_the_series_and_keep_their_name():
    def squareplus(z):
        return (z + jnp.sqrt(z**2 + 4)) / 2

    activation = as_activation(squareplus)
    assert activation.name == "squareplus"
    assert isinstance(activation.law(), HermiteSeries)
    assert activation.law(24).terms == 24
    assert fw.Activation(squareplus, name="other").name == "other"
    assert as_activation(activation) is activation


def test_the_closed_form_wins_over_the_series():
    assert as_activation("relu").law(24) is as_activation("relu").closed_form


@pytest.mark.parametrize(
    "made", [jnp.tanh, jax.nn.relu, jax.nn.hard_tanh, jnp.exp, lambda z: z * jnp.exp(-(z**2))]
)
def test_ordinary_functions_are_accepted(made):
    assert fw.Activation(made).law()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tahn", r"unknown activation 'tahn'\. Did you mean 'tanh'\? Known: linear, relu, .*hard_sigmoid"),
        ("xyzzy", r"unknown activation 'xyzzy'\. Known: linear"),
        ("relu:2", r"unknown activation 'relu:2'"),
        ("", r"unknown activation ''"),
        ("leaky_relu:abc", r"activation 'leaky_relu:abc': 'abc' after the colon is not a number"),
        ("leaky_relu:nan", r"leaky_relu needs a finite slope, got nan"),
        ("leaky_relu:inf", r"leaky_relu needs a finite slope, got inf"),
        ("monomial:0", r"monomial needs a positive integer power, got 0"),
        ("monomial:2.5", r"monomial needs a positive integer power, got 2\.5"),
        ("monomial:nan", r"monomial needs a positive integer power, got nan"),
        ("monomial:inf", r"monomial needs a positive integer power, got inf"),
    ],
)
def test_bad_names(name, words):
    with pytest.raises(ValueError, match=words):
        as_activation(name)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            jnp.log,
            r"activation 'log' or its derivative is not finite at z = -12\.\d+ \(\d+ of \d+ quadrature",
        ),
        (lambda z: 1 / (z > 0), r"is not finite at z = -12"),
        (lambda z: jnp.where(z > 3, jnp.nan, z), r"is not finite at z = 3\.\d+"),
        (lambda z: jnp.sqrt(z), r"is not finite at z"),
        (
            jnp.sum,
            r"activation 'sum' turned an array of shape \(\d+,\) into shape \(\); it must act elementwise",
        ),
    ],
)
def test_bad_functions(function, words):
    with pytest.raises(ValueError, match=words):
        fw.Activation(function)


def test_wrong_types(unchecked_annotations):
    with pytest.raises(
        TypeError, match=r"Activation needs a function of an array, got 'relu'.*pass its name instead"
    ):
        fw.Activation("relu")
    with pytest.raises(TypeError, match=r"activation must be a name, a function or an Activation, got 3"):
        as_activation(3)
