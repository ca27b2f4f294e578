import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_thread_per_process():
    """Matrices are small here: threads of BLAS would wait for each other longer than they work."""
    with threadpool_limits(1):
        yield
