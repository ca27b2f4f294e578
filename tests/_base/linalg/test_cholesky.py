import numpy as np
import pytest

from finitewidth._base.linalg.cholesky import SingularKernelError, confused_pair, factorise, symmetric_product
from tolerances import ROUNDING, assert_close


@pytest.fixture(params=[np.float64, np.float32])
def kernel(rng, request):
    root = rng.normal(size=(7, 20))
    return (root @ root.T / 20 + 0.5 * np.eye(7)).astype(request.param)


def test_solves_inverts_and_keeps_the_precision(kernel, rng):
    right = rng.normal(size=(7, 3)).astype(kernel.dtype)
    factor = factorise(kernel, ridge=0.25)
    shifted = kernel.astype(float) + 0.25 * np.eye(7)
    tolerance = 10 * ROUNDING[kernel.dtype.name]
    assert factor.solve(right).dtype == kernel.dtype
    assert_close(shifted @ factor.solve(right), right, tolerance)
    half = factor.half_solve(right)
    assert_close(half.T @ half, right.T @ np.linalg.inv(shifted) @ right, tolerance)
    assert_close(factor.inverse(), np.linalg.inv(shifted), tolerance)
    assert_close(factor.log_determinant(), np.linalg.slogdet(shifted)[1], tolerance)


@pytest.mark.parametrize("n", [128, 129, 300])
def test_blocks_make_the_same_factor(rng, n):
    x = rng.normal(size=(n, n + 5))
    kernel = x @ x.T / n + np.eye(n)
    assert_close(np.triu(factorise(kernel).upper).T, np.linalg.cholesky(kernel))
    kernel[0, -1] = kernel[-1, 0] = 9.0
    with pytest.raises(SingularKernelError, match="not positive definite"):
        factorise(kernel)


def test_leaves_its_argument_alone(kernel):
    before = kernel.copy()
    factorise(kernel, ridge=1.0)
    np.testing.assert_array_equal(kernel, before)


def test_condition_number_is_that_of_the_one_norm(kernel):
    exact = 1 / (np.linalg.norm(kernel, 1) * np.linalg.norm(np.linalg.inv(kernel), 1))
    assert exact <= factorise(kernel).reciprocal_condition * (1 + 1e-4)
    assert factorise(kernel).reciprocal_condition < 3 * exact


def test_symmetric_product_is_the_dense_one(kernel, rng):
    M, S = (rng.normal(size=(4, 7)).astype(kernel.dtype) for _ in range(2))
    dense = M @ kernel @ M.T - S @ M.T - M @ S.T
    product = symmetric_product(M, kernel, S)
    assert_close(product, dense)
    np.testing.assert_array_equal(product, product.T)


@pytest.mark.parametrize(("sign", "word"), [(1, "equal"), (-1, "opposite")])
def test_names_the_points_that_are_confused(rng, sign, word):
    x = rng.normal(size=(6, 9))
    x[4] = sign * x[1]
    kernel = x @ x.T
    assert confused_pair(kernel) == (1, 4, sign)
    with pytest.raises(
        SingularKernelError, match=f"the toy kernel is singular.*points 1 and 4 are {word}.*ridge above 0"
    ):
        factorise(kernel, name="the toy kernel")
    factorise(kernel, ridge=1e-6)


def test_a_condition_number_near_the_precision_is_refused(rng):
    """Of sixteen digits a condition of 4e15 leaves none, and one of 1e13 a few."""
    Q, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    kernel = lambda smallest: (Q * np.array([1.0, 0.5, 0.4, 0.3, smallest])) @ Q.T
    for lost in (2e-16, 5e-16):
        with pytest.raises(SingularKernelError, match=r"condition number|not positive definite"):
            factorise(np.diag([1.0, 0.5, lost]))
    assert factorise(kernel(1e-13)).reciprocal_condition < 1e-12
    # Four times 2.2e-16 is the line, and a diagonal matrix has its condition number exactly.
    assert factorise(np.diag([1.0, 0.5, 1e-15])).reciprocal_condition == pytest.approx(1e-15)
    with pytest.raises(SingularKernelError, match="condition number"):
        factorise(np.diag([1.0, 0.5, 8e-16]))


def test_singular_without_a_pair_gives_the_reason(rng):
    x = rng.normal(size=(5, 3))
    assert confused_pair(x @ x.T) is None
    with pytest.raises(SingularKernelError, match=r"condition number|not positive definite"):
        factorise(x @ x.T)
