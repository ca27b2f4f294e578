"""Every change in the lists can still be made, and the runner tells killed from surviving."""

import pytest

from mutants.run import ROOT, Copy, Mutant, chosen, load, run

MUTANTS = load()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_change_can_be_made_and_its_tests_exist(mutant):
    assert mutant.problem(ROOT) is None


def test_there_are_enough():
    assert len(MUTANTS) >= 150
