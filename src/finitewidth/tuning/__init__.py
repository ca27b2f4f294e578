"""How to initialise and train a network."""

from finitewidth.tuning.advice import Tuning, tune

__all__ = ["Tuning", "tune"]
