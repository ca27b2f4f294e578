"""Points left out and the noise of labels, by retraining and by a fine grid."""

import numpy as np
from scipy import stats


def left_out_by_retraining(nngp, ntk, y, ridge, gain=None):
    """Mean (points, out) and variance (points,) at each point of networks trained on all others.

    `gain` maps the eigenvalues of the training NTK to those of the map from labels to coefficients; training
    to the end by default.
    """
    nngp, ntk, y = (np.asarray(a, float) for a in (nngp, ntk, y))
    points = len(y)
    mean, variance = np.empty_like(y), np.empty(points)
    for i in range(points):
        kept = np.delete(np.arange(points), i)
        inner = ntk[np.ix_(kept, kept)] + ridge * np.eye(points - 1)
        eigenvalues, V = np.linalg.eigh(inner)
        weights = (V * (1 / eigenvalues if gain is None else gain(eigenvalues))) @ V.T
        row = ntk[i, kept] @ weights
        mean[i] = row @ y[kept]
        whole = np.zeros(points)
        whole[i], whole[kept] = 1.0, -row
        variance[i] = whole @ nngp @ whole
    return mean, variance


def most_probable_noise(mean, variance, y):
    """The variance s^2 that makes the labels most probable under N(mean, variance + s^2), and its loss."""
    noises = np.geomspace(1e-5, 1e3, 4001)
    spread = np.sqrt(np.asarray(variance)[:, None] + noises)
    losses = -sum(
        stats.norm.logpdf(np.asarray(y)[:, [o]], np.asarray(mean)[:, [o]], spread).mean(axis=0)
        for o in range(np.shape(y)[1])
    )
    best = int(np.argmin(losses))
    return noises[best], losses[best]
