"""Networks that are trained once for all tests of the room."""

import pytest

from networks_on_digits import FRAMEWORKS, digits


@pytest.fixture(scope="session")
def data():
    return digits()


@pytest.fixture(scope="session")
def trained():
    """Trained networks by framework, each made when it is first asked for."""
    made = {}

    def get(framework: str):
        if framework not in made:
            made[framework] = FRAMEWORKS[framework]()
        return made[framework]

    return get
