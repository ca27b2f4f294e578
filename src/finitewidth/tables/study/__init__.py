"""From a table of data to a checked prediction: the work behind `finitewidth predict`."""
