"""Every claim is about what its key draws, or says that nothing is random."""

import ast
import inspect
import textwrap

import jax
import numpy as np
import pytest

from finitewidth import lab
from finitewidth.lab.framework.random_problem import RandomProblem

CLAIMS = {claim.id: claim for claim in lab.claims()}

# Cheap ones of every kind: a claim that draws its data, its weights, its labels or its networks.
CHEAP = (
    "fan-in-scaling",
    "lin-two-forms",
    "gd-min-norm",
    "pd-kernel-linear-convergence",
    "representer-ridge-duality",
    "ntk-one-step",
    "quad-feature-update",
    "dual-z-update",
    "nk-direct",
    "nk-eigenbasis",
    "nk-inverting-tensor",
    "nk-ZB-universal",
    "nk-weight-split",
    "gen-derivative",
)


def reads_its_key(function) -> bool:
    """Whether the last argument of a function occurs in its body."""
    function = inspect.unwrap(function)
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    key = definition.args.args[-1].arg
    return any(isinstance(node, ast.Name) and node.id == key for node in ast.walk(definition))


def test_a_function_that_ignores_its_key_is_found():
    def uses(setting, key):
        return jax.random.normal(key, setting)

    def ignores(setting, key):
        return np.random.default_rng(4).normal(size=setting)

    assert reads_its_key(uses)
    assert not reads_its_key(ignores)


@pytest.mark.parametrize("id", CLAIMS)
def test_every_claim_uses_its_key_or_is_deterministic(id):
    claim = CLAIMS[id]
    random = isinstance(claim.quick, RandomProblem) or reads_its_key(claim.measure)
    assert random != claim.deterministic


@pytest.mark.parametrize("id", [id for id, claim in CLAIMS.items() if isinstance(claim.quick, RandomProblem)])
def test_a_drawn_problem_follows_from_the_seed(id):
    claim = CLAIMS[id]
    first, again, other = (claim.problem("quick", seed)[0] for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_no_claim_has_a_seed_of_its_own():
    """Random data come from `Setting.rng` or from the key; the exceptions measure with their key."""
    written = set()
    for module in {inspect.getmodule(inspect.unwrap(claim.measure)) for claim in CLAIMS.values()}:
        assert module is not None
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "np.random.default_rng",
                "jax.random.key",
            ):
                argument = node.args[0]
                if isinstance(argument, ast.Constant):
                    written.add((module.__name__.split(".")[-1], argument.value))
    assert written == {
        ("bounds", 4),
        ("expanded_networks", 17),
        ("positive_kernels", 7),
        ("one_hidden_layer", 0),
    }


@pytest.mark.parametrize("id", CHEAP)
def test_other_seeds_measure_other_numbers(id):
    claim = CLAIMS[id]
    measured = [claim.measure(*claim.problem("quick", seed)) for seed in (0, 1)]
    assert any(np.any(measured[0][name].value != measured[1][name].value) for name in measured[0])


@pytest.mark.parametrize("id", [id for id, claim in CLAIMS.items() if claim.deterministic])
def test_a_deterministic_claim_says_why(id):
    assert "nothing is random" in (inspect.getdoc(type(CLAIMS[id].quick)) or "")
