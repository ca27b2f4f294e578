"""Networks with one hidden layer as measures over their neurons, and training as transport of the measure."""
