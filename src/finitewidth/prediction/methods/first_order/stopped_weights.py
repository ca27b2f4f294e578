r"""Weights of training that stops, with or without a ridge, counted by transfer matrices.

With r the ridge and t the eigenvalue plus r, a residual of the start has moved the weights by $\xi$, and
$\zeta$ of it is left,

$$\dot\xi_k=1-t_k\xi_k,\qquad \zeta_k=1-(t_k-r)\xi_k=e^{-t_ks}+r\,\xi_k ,$$

and what has been spent on features that had moved already is held back by the ridge alone:

$$\dot q_{kl}=\zeta_k\xi_l-r\,q_{kl},\quad\dot w_{klm}=\zeta_k\xi_l\xi_m-r\,w_{klm},\quad
  \dot p_{klm}=\zeta_kq_{lm}-r\,p_{klm}$$

(a flow; steps have differences in place of derivatives). The weights of the sources are $\xi_k\xi_l/2$, q,
$\xi_k\xi_l\xi_m/6$, w/2, $\xi_kq_{lm}$ and p. All are sums over histories: a *leg* k waits, is moved at some
moment and decays from then on at the rate t; $\zeta$ is a leg that was moved at the start, or waits r times.
"""

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth.algorithms.clocks import Clock, Matrices

# States of two legs l, m: both wait, m moved, l moved, both moved, both spent on q. With a third leg k the
# states are these while k waits, then these with k moved.
_WAIT, _L, _BOTH, _SPENT = 0, 2, 3, 4
_K = 5


def stopped_weights(
    t: Float[np.ndarray, " k"], ridge: float, ticking: Clock
) -> tuple[Float[np.ndarray, "start *k"], ...]:
    """Weights h, hh, dH_Dab, dH_aDb, I_Dabc, I_aDbc, J_Dbac, J_abDc; t includes the ridge."""
    # Several outputs repeat every eigenvalue.
    distinct, place = np.unique(t, return_inverse=True)
    starts = [_from(distinct, ridge, ticking, q) for q in (None, *distinct)]
    stacked = [np.stack(parts) for parts in zip(*starts, strict=True)]
    at = np.concatenate([[0], 1 + place])
    return tuple(w[np.ix_(at, *[place] * (w.ndim - 1))] for w in stacked)


def _from(t: Float[np.ndarray, " k"], r: float, ticking: Clock, q: float | None) -> list[AnyArray]:
    """The weights of one start of the chains."""
    c, before = ticking.rate, [()] if q is None else [(), (np.array([q]),)]
    frozen = [c * ticking.chain([*before, (t,)]), c**2 * ticking.chain([*before, (t[:, None],), (t,)])]

    l, m = np.broadcast_arrays(t[:, None], t)
    pair = _pair(l, m, r, ticking)
    two = _totals(pair, ticking, q, ends=(_BOTH, _SPENT))
    on_pairs = [two[_WAIT, 0] / 2, two[_L, 1] + r * two[_WAIT, 1]]

    k, l, m = np.broadcast_arrays(t[:, None, None], t[:, None], t)
    core = ticking.joint(_leg(k, ticking), _pair(l, m, r, ticking))
    size = len(core)
    grown = np.zeros((size + 2, size + 2, *k.shape))
    grown[:size, :size] = core
    for spent, source in ((size, _K + _BOTH), (size + 1, _K + _SPENT)):
        grown[source, spent] = c
        grown[spent, spent] = ticking.stay(r)
    three = _totals(grown, ticking, q, ends=(_K + _BOTH, size, _K + _SPENT, size + 1))
    p = three[_K + _L, 3] + r * (three[_K + _WAIT, 3] + three[_L, 3]) + r**2 * three[_WAIT, 3]
    on_triples = [
        three[_WAIT, 0] / 6,
        (three[_K + _WAIT, 1] + r * three[_WAIT, 1]) / 2,
        three[_L, 2] + r * three[_WAIT, 2],
        p,
    ]
    return [*frozen, *on_pairs, *on_triples]


def _leg(t: np.ndarray, ticking: Clock) -> Matrices:
    """A leg that waits, and one that is moved and decays."""
    zero = np.zeros_like(t)
    return np.array([[ticking.stay(zero), zero + ticking.rate], [zero, ticking.stay(t)]])


def _pair(l: np.ndarray, m: np.ndarray, r: float, ticking: Clock) -> Matrices:
    """Two legs, and what both are spent on when both are moved."""
    pair = np.zeros((5, 5, *l.shape))
    pair[:4, :4] = ticking.joint(_leg(l, ticking), _leg(m, ticking))
    pair[_BOTH, _SPENT] = ticking.rate
    pair[_SPENT, _SPENT] = ticking.stay(r)
    return pair


def _totals(
    transfer: Matrices, ticking: Clock, q: float | None, ends: tuple[int, ...]
) -> Float[AnyArray, "from to *shape"]:
    """What arrives in the end states; with q, what they have handed on to a residual of that mode."""
    if q is None:
        return ticking.evolved(transfer)[:, list(ends)]
    size = len(transfer)
    total = size + len(ends)
    grown = np.zeros((total, total, *transfer.shape[2:]))
    grown[:size, :size] = transfer
    for place, end in enumerate(ends):
        grown[end, size + place] = 1.0
        grown[size + place, size + place] = ticking.stay(q)
    return ticking.evolved(grown)[:, size:]
