"""Hidden layers as measures: the limit of many neurons, and training as transport."""
