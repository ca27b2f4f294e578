"""How to initialise and train a network."""

from finitewidth.tuning.advice import Tuning, tune
from finitewidth.tuning.propagation import Propagation

__all__ = ["Propagation", "Tuning", "tune"]
