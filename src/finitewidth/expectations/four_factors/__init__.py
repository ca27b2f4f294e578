"""Averages of four activations of two or more neurons' inputs, for corrections in 1/width."""
