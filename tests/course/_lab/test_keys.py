"""Every claim is about what its key draws, or says that nothing is random."""

import ast
import inspect
import textwrap
from pathlib import Path

import jax
import numpy as np
import pytest

from book import load
from finitewidth import course as lab
from finitewidth.course._lab.random_problem import RandomProblem

CLAIMS = {claim.id: claim for claim in lab.claims()}
LAB = Path(lab.__file__).parent

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


def test_every_claim_uses_its_key_or_is_deterministic():
    random = {
        id: isinstance(claim.quick, RandomProblem) or reads_its_key(claim.measure)
        for id, claim in CLAIMS.items()
    }
    assert [id for id, claim in CLAIMS.items() if random[id] == claim.deterministic] == []


def test_a_drawn_problem_follows_from_the_seed():
    wrong = []
    for id, claim in CLAIMS.items():
        if isinstance(claim.quick, RandomProblem):
            first, again, other = (claim.problem("quick", seed)[0] for seed in (0, 0, 1))
            wrong += [id] if first != again or first == other else []
    assert wrong == []


def wired_seeds(source: str) -> set[int]:
    """Constants that a module makes random numbers from."""
    makers = ("default_rng", "RandomState", "SeedSequence", "PRNGKey", "key", "seed")
    return {
        argument.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in makers
        for argument in [*node.args, *(word.value for word in node.keywords)]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, int)
    }


def test_a_wired_seed_is_found():
    assert wired_seeds("rng = np.random.default_rng(7)") == {7}
    assert wired_seeds("k = random.key(seed=3); jax.random.PRNGKey(2); rng = default_rng(self.seed)") == {
        2,
        3,
    }


def test_no_claim_has_a_seed_of_its_own():
    """Random data come from `RandomProblem.rng` or the key; two modules ask for a network's structure."""
    wired = {
        path.relative_to(LAB).as_posix(): wired_seeds(path.read_text(encoding="utf-8"))
        for folder in ("*/claims", "*/networks", "_instruments", "_lab")
        for path in LAB.glob(f"{folder}/*.py")
    }
    assert {module: seeds for module, seeds in wired.items() if seeds} == {
        "tangent_kernel/claims/one_hidden_layer.py": {0},
        "loss_landscape/networks/classifiers.py": {0},
    }


def test_equal_numbers_at_two_seeds_are_found():
    """`make seeds` looks for them in the records of every claim."""

    def record(id, value, fixed=False):
        return {"id": id, "measured": {"a": {"value": [value]}}, "deterministic": fixed}

    runs = [
        [record("drawn", 1.1), record("stuck", 2.2), record("fixed", 3.3, True), record("cells", 16.0)],
        [record("drawn", 1.5), record("stuck", 2.5), record("fixed", 3.3, True), record("cells", 16.0)],
        [record("drawn", 1.7), record("stuck", 2.2), record("fixed", 3.3, True), record("cells", 16.0)],
    ]
    assert load(Path(__file__).with_name("other_seeds.py")).wired_in(runs) == ["stuck"]


@pytest.mark.parametrize("id", CHEAP)
def test_other_seeds_measure_other_numbers(id):
    claim = CLAIMS[id]
    measured = [claim.measure(*claim.problem("quick", seed)) for seed in (0, 1)]
    assert any(np.any(measured[0][name].value != measured[1][name].value) for name in measured[0])


@pytest.mark.parametrize("id", [id for id, claim in CLAIMS.items() if claim.deterministic])
def test_a_deterministic_claim_says_why(id):
    assert "nothing is random" in (inspect.getdoc(type(CLAIMS[id].quick)) or "")
