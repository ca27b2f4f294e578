"""Cells of a ReLU network in a polygon by exact rational arithmetic, one polygon and one neuron at a time."""

from fractions import Fraction


def exact_patterns(layers, corners, origin, directions) -> list[tuple[int, ...]]:
    """Activation patterns of all cells of positive area.

    `layers` are (weight, bias) of whole numbers or fractions, the last one without gates; `corners` are
    coordinates u of a convex polygon in the plane x = origin + u_1 directions[0] + u_2 directions[1].
    """
    inputs = [(*(Fraction(d[i]) for d in directions), Fraction(origin[i])) for i in range(len(origin))]
    cells = [([tuple(map(Fraction, corner)) for corner in corners], inputs, ())]
    for weight, bias in layers[:-1]:
        after = []
        for polygon, below, pattern in cells:
            z = [_affine(row, b, below) for row, b in zip(weight, bias, strict=True)]
            parts = [(polygon, pattern)]
            for g in z:
                parts = [half for part, gates in parts for half in _halves(part, gates, g)]
            for part, gates in parts:
                here = gates[len(pattern) :]
                active = [g if gate else (Fraction(0),) * 3 for g, gate in zip(z, here, strict=True)]
                after.append((part, active, gates))
        cells = after
    return [pattern for _, _, pattern in cells]


def _affine(row, b, below):
    total = [
        sum((Fraction(w) * h[k] for w, h in zip(row, below, strict=True)), Fraction(0)) for k in range(3)
    ]
    return (total[0], total[1], total[2] + Fraction(b))


def _halves(polygon, gates, g):
    values = [g[0] * x + g[1] * y + g[2] for x, y in polygon]
    if max(values) <= 0:
        return [(polygon, (*gates, 0))]
    if min(values) >= 0:
        return [(polygon, (*gates, 1))]
    sides = []
    for sign in (1, -1):
        part = []
        for i, (corner, value) in enumerate(zip(polygon, values, strict=True)):
            following, next_value = polygon[(i + 1) % len(polygon)], values[(i + 1) % len(polygon)]
            if sign * value >= 0:
                part.append(corner)
            if value * next_value < 0:
                way = value / (value - next_value)
                part.append(tuple(a + way * (b - a) for a, b in zip(corner, following, strict=True)))
        sides.append((part, (*gates, int(sign > 0))))
    return sides
