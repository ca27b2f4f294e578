import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth._base.linalg.cholesky import SingularKernelError
from finitewidth.algorithms.gradient_descent import inverting
from finitewidth.architecture.models.meta_kernel import DenseMetaKernel, FeatureMetaKernel
from finitewidth.nearly_kernel_methods.algorithm_projectors import pair_projectors, projectors
from finitewidth.networks.training.weight_space import train_weights
from quadratic import CASES, naive_projectors, random_problem, slope, step_of, stored_problem
from tolerances import assert_close

REFERENCE = 1e-9
ALGORITHMS = {
    "gd": lambda eta: fw.GradientDescent(eta),
    "ode": lambda eta: fw.GradientFlow(),
    "direct": lambda eta: fw.DirectOptimization(),
    "minnorm": lambda eta: fw.DirectOptimization("minimum-norm"),
    "sharp": lambda eta: fw.DirectOptimization("gauss-newton", 0.0),
}
FROM_ZERO = [case for case in CASES if case["name"] != "nonzero_W0"]


class TestReference:
    """Numbers of independent solvers."""

    @pytest.mark.parametrize("case", FROM_ZERO, ids=lambda c: c["name"])
    @pytest.mark.parametrize("name", ALGORITHMS)
    def test_first_order(self, case, name):
        problem = stored_problem(case)
        n, expected = case["N_A"], case["expected"]
        machine = fw.nearly_kernel(*problem.parts(case["eps"]), problem.y, ALGORITHMS[name](case["eta"]))
        assert_close(machine.linear.T, np.array(expected["z_linear"])[:, n:], REFERENCE)
        assert_close(machine.correction.T, case["eps"] * np.array(expected[f"zI_{name}"])[:, n:], REFERENCE)
        assert_close(machine.prediction.T, np.array(expected[f"z_first_order_{name}"])[:, n:], REFERENCE)

    @pytest.mark.parametrize("name", ["gd", "ode"])
    def test_a_start_away_from_zero(self, name):
        (case,) = [case for case in CASES if case["name"] == "nonzero_W0"]
        problem = stored_problem(case)
        machine = fw.nearly_kernel_machine(
            problem.model(case["eps"]), problem.train, problem.y, np.arange(len(problem.phi)),
            ALGORITHMS[name](case["eta"]), weights=jnp.array(case["W0"]),
        )  # fmt: skip
        assert_close(machine.prediction.T, np.array(case["expected"][f"z_first_order_{name}"]), REFERENCE)


class TestProjectors:
    """The eigenbasis against tensors of four points."""

    @pytest.mark.parametrize("edge", [0.0, 0.37, 1.3, 1.9])
    def test_equal_the_naive_tensors(self, edge):
        problem = random_problem(3, train=6)
        k, y = problem.parts()[0], problem.y
        eta = step_of(k, edge)
        Z_A, Z_B, X = naive_projectors(k, eta)
        found = projectors(k, fw.GradientDescent(eta) if edge else fw.GradientFlow())
        assert_close(found.contract_A(y)[0], np.einsum("abcd,c,d->ab", Z_A, y[:, 0], y[:, 0]))
        assert_close(found.contract_B(y)[0], np.einsum("abcd,c,d->ab", Z_B, y[:, 0], y[:, 0]))
        l, V = found.eigenvalues, found.eigenvectors
        assert_close(np.einsum("ai,bj,ij,ci,dj->abcd", V, V, inverting(l[:, None], l, eta), V, V), X)

    def test_direct_optimisation(self):
        k, y = random_problem(3).parts()[0], random_problem(3).y
        q = np.linalg.solve(k, y)
        found = projectors(k, fw.DirectOptimization())
        assert_close(found.contract_B(y)[0], q @ q.T / 2)
        assert not found.contract_A(y).any()

    @pytest.mark.parametrize(
        "algorithm", [fw.GradientDescent(0.3), fw.GradientDescent(0.03), fw.GradientFlow()]
    )
    def test_the_symmetric_part_of_the_second_does_not_depend_on_the_algorithm(self, rng, algorithm):
        l1, l2 = rng.uniform(0.1, 6, size=(2, 50))
        there, back = (pair_projectors(*pair, algorithm)[1] for pair in ((l1, l2), (l2, l1)))
        assert_close((there + back) / 2, 1 / (2 * l1 * l2), elementwise=True)

    def test_the_inverting_tensor_sums_the_decay_of_pairs(self):
        l1, l2, eta = 0.8, 2.1, 0.6
        series = eta * np.sum(((1 - eta * l1) * (1 - eta * l2)) ** np.arange(200))
        assert_close(inverting(l1, l2, eta), series)


EPSILONS = 0.008 * 0.5 ** np.arange(4)


@pytest.mark.parametrize(
    "algorithm_of",
    [
        lambda k: fw.GradientDescent(step_of(k, 1.3)),
        lambda k: fw.GradientDescent(step_of(k, 0.05)),
        lambda k: fw.GradientFlow(),
        lambda k: fw.DirectOptimization(),
        lambda k: fw.DirectOptimization("gauss-newton", 0.5),
        lambda k: fw.DirectOptimization("gauss-newton", 0.0),
        lambda k: fw.DirectOptimization("minimum-norm"),
    ],
    ids=[
        "finite step",
        "small step",
        "flow",
        "row space",
        "damped Gauss-Newton",
        "Gauss-Newton flow",
        "minimum norm",
    ],
)
def test_what_is_left_out_is_of_second_order(algorithm_of):
    """Against real training of the weights; the error of the kernel alone is of first order."""
    problem = random_problem(0, outputs=2)
    algorithm = algorithm_of(problem.parts()[0])
    errors, linear = [], []
    for epsilon in EPSILONS:
        model = problem.model(epsilon)
        trained = train_weights(model.at(problem.train), problem.y, algorithm, problem.zeros())
        machine = fw.nearly_kernel(*problem.parts(epsilon), problem.y, algorithm)
        real = model(trained.weights, problem.test)
        errors.append(np.abs(machine.prediction - real).max())
        linear.append(np.abs(machine.linear - real).max())
    assert abs(slope(EPSILONS, errors) - 2) < 0.1
    assert abs(slope(EPSILONS, linear) - 1) < 0.1


def test_the_algorithm_matters_far_beyond_rounding():
    problem = random_problem(0)
    k = problem.parts()[0]
    algorithms = [
        fw.GradientDescent(step_of(k, 1.8)), fw.GradientDescent(step_of(k, 0.5)), fw.GradientFlow(),
        fw.DirectOptimization(), fw.DirectOptimization("minimum-norm"),
    ]  # fmt: skip
    model = problem.model(0.01)
    found = [fw.nearly_kernel(*problem.parts(0.01), problem.y, a) for a in algorithms]
    real = [
        model(train_weights(model.at(problem.train), problem.y, a, problem.zeros()).weights, problem.test)
        for a in algorithms
    ]
    for i in range(len(algorithms)):
        for j in range(i):
            differ = found[i].prediction - found[j].prediction
            # What the formulas say differs is what differs, up to the second order that they leave out.
            assert np.abs(differ).max() > 1e-5
            assert_close(differ, real[i] - real[j], 0.3)
        assert_close(found[i].linear, found[0].linear)


class TestMetaKernels:
    """Arrays and maps give one answer."""

    def test_features_and_array_agree(self):
        problem = random_problem(1, outputs=3)
        n = len(problem.y)
        phi, psi = problem.phi[:n], problem.psi[:n]
        dense = DenseMetaKernel(problem.mu(0.3)[:n, n:, :n])
        lazy = FeatureMetaKernel(psi, problem.phi[n:], phi, 0.3)
        assert_close(lazy.dense(), dense.array)
        C = np.random.default_rng(0).normal(size=(3, len(problem.test), n))
        D = np.random.default_rng(0).normal(size=(3, n, n))
        assert_close(lazy.over_features(C), np.einsum("abc,obc->ao", dense.array, C))
        assert_close(dense.over_features(C), np.einsum("abc,obc->ao", dense.array, C))
        assert_close(lazy.over_meta(D), np.einsum("abc,oac->bo", dense.array, D))
        assert_close(dense.over_meta(D), np.einsum("abc,oac->bo", dense.array, D))
        assert_close(dense.along(D[0]), np.einsum("abc,co->oab", dense.array, D[0]))

    def test_a_map_predicts_as_its_array_does(self):
        problem = random_problem(2, outputs=2)
        dense = fw.nearly_kernel(*problem.parts(0.1), problem.y)
        lazy = fw.nearly_kernel_machine(problem.model(0.1), problem.train, problem.y, problem.test)
        assert_close(lazy.prediction, dense.prediction)

    def test_a_file_larger_than_a_block_is_read_in_pieces(self, tmp_path, monkeypatch):
        problem = random_problem(2)
        parts = list(problem.parts(0.1))
        expected = fw.nearly_kernel(*parts, problem.y)
        for i in (2, 3, 4):
            np.save(tmp_path / f"{i}.npy", parts[i])
            parts[i] = np.load(tmp_path / f"{i}.npy", mmap_mode="r")
        monkeypatch.setattr("finitewidth.architecture.models.meta_kernel._BLOCK_BYTES", 600)
        assert_close(fw.nearly_kernel(*parts, problem.y).prediction, expected.prediction)


class TestExtremes:
    """Where the answer is known."""

    def test_training_points_keep_their_labels(self):
        problem = random_problem(4)
        n = len(problem.y)
        k, mu = problem.k[:n, :n], problem.mu(0.2)[:n, :n, :n]
        machine = fw.nearly_kernel(k, k, mu, mu, mu, problem.y, fw.GradientFlow())
        assert_close(machine.prediction, problem.y)
        assert_close(machine.correction, np.zeros((n, 1)), scale=1.0)

    def test_no_meta_features_no_correction(self):
        problem = random_problem(4)
        machine = fw.nearly_kernel(*problem.parts(0.0), problem.y)
        assert_close(machine.prediction, problem.parts()[1] @ np.linalg.solve(problem.parts()[0], problem.y))
        assert not machine.share.any()

    def test_small_steps_are_a_flow(self):
        problem = random_problem(4)
        parts = problem.parts(0.1)
        flow = fw.nearly_kernel(*parts, problem.y, fw.GradientFlow())
        steps = fw.nearly_kernel(*parts, problem.y, fw.GradientDescent(1e-13))
        assert_close(steps.prediction, flow.prediction, 1e-11)

    def test_a_ridge_is_a_private_feature_of_every_training_point(self):
        problem, ridge = random_problem(5), 0.3
        n, F = len(problem.y), problem.phi.shape[1]
        private = np.concatenate([np.sqrt(ridge) * np.eye(n), np.zeros((len(problem.test), n))])
        psi = np.zeros((len(problem.phi), F + n, F + n))
        psi[:, :F, :F] = problem.psi
        wider = problem._replace(phi=np.concatenate([problem.phi, private], axis=1), psi=psi)
        with_ridge = fw.nearly_kernel(*problem.parts(0.1), problem.y, ridge=ridge)
        assert_close(with_ridge.prediction, fw.nearly_kernel(*wider.parts(0.1), problem.y).prediction)

    def test_single_precision_stays(self):
        problem = random_problem(4)
        arrays = [a.astype(np.float32) for a in (*problem.parts(0.1), problem.y)]
        machine = fw.nearly_kernel(*arrays)
        assert machine.prediction.dtype == jnp.float32
        assert_close(
            machine.prediction, fw.nearly_kernel(*problem.parts(0.1), problem.y).prediction.astype("f4"), 1e-4
        )


@pytest.mark.usefixtures("unchecked_annotations")
class TestBadInput:
    """One sentence for every mistake."""

    def refused(self, match, error=ValueError, change=None, algorithm=None, **options):
        problem = random_problem(0)
        arguments = dict(
            zip(
                ("k_train", "k_test", "mu_train", "mu_test", "mu_train_test"), problem.parts(0.1), strict=True
            )
        )
        arguments |= {"y": problem.y} | (change(arguments) if change else {})
        with pytest.raises(error, match=match):
            fw.nearly_kernel(**arguments, algorithm=algorithm, **options)

    @pytest.mark.parametrize(
        ("name", "change", "match"),
        [
            ("k_train", lambda a: a["k_train"][1:], r"k_train must be square, got shape \(5, 6\)"),
            ("k_test", lambda a: a["k_test"][:, 2:], r"k_test has shape \(5, 4\); its columns are the 6"),
            ("mu_train", lambda a: a["mu_train"][..., 1:], r"mu_train has .*5\);.*must be \(6, 6, 6\)"),
            ("mu_test", lambda a: a["mu_train"], r"mu_test has shape \(6, 6, 6\);.*must be \(5, 6, 6\)"),
            ("mu_train_test", lambda a: a["k_train"], r"mu_train_test must be an array of three points"),
            ("y", lambda a: np.ones((4, 1)), r"y has shape \(4, 1\); 6 points need"),
        ],
    )
    def test_shapes(self, name, change, match):
        self.refused(match, change=lambda a: {name: change(a)})

    def test_starts(self):
        self.refused(r"start must hold outputs on \(training, test\)", start=(np.ones(6),))
        self.refused(r"start on the test points has shape \(6, 1\)", start=(np.ones(6), np.ones(6)))

    def test_values(self):
        self.refused("y holds NaN", change=lambda a: {"y": np.full(6, np.nan)})
        self.refused("mu_test holds NaN", change=lambda a: {"mu_test": np.full((5, 6, 6), np.nan)})
        self.refused("ridge must be zero or more, and finite, got -1", ridge=-1.0)
        lopsided = lambda a: {"k_train": a["k_train"] + np.triu(np.ones((6, 6)), 1)}
        self.refused("k_train must be symmetric, but differs from its transpose by 1", change=lopsided)

    def test_a_meta_kernel_that_is_not_symmetric(self):
        def lopsided(arguments):
            mu = arguments["mu_train"].copy()
            mu[4, 2, 5] += 0.5
            return {"mu_train": mu}

        self.refused(
            r"mu_train must be symmetric in its last two indices, but \[4, [25], [25]\]", change=lopsided
        )

    def test_a_singular_kernel(self):
        def twice(arguments):
            k = arguments["k_train"].copy()
            k[1], k[:, 1] = k[0], k[:, 0]
            k[1, 1] = k[0, 0]
            return {"k_train": k}

        self.refused(
            "k_train is singular on these 6 points .points 0 and 1 are equal", SingularKernelError, twice
        )

    def test_a_step_beyond_stability(self):
        k = random_problem(0).parts()[0]
        limit = step_of(k, 2.0)
        self.refused(f"2/lambda_max={limit:.4g}", algorithm=fw.GradientDescent(1.01 * limit))

    def test_training_that_stops_early(self):
        self.refused("describes training run to the end", algorithm=fw.GradientFlow(3.0))

    def test_a_correction_that_dominates_is_a_warning_with_the_number(self):
        problem = random_problem(0)
        with pytest.warns(UserWarning, match=r"the quadratic correction is [\d.]+ times as large"):
            fw.nearly_kernel(*problem.parts(3.0), problem.y)

    def test_direct_optimisation_of_an_unknown_kind(self):
        with pytest.raises(ValueError, match=r"solution must be one of row-space, .* got 'newton'"):
            fw.DirectOptimization("newton")
        with pytest.raises(ValueError, match="step must be a fraction between 0 and 1, got 2"):
            fw.DirectOptimization("gauss-newton", 2)
        with pytest.raises(ValueError, match=r"step=0\.5 is for solution="):
            fw.DirectOptimization("row-space", 0.5)
