"""Numbers as one reads them."""

import math


def short(value: float | None) -> str:
    """Three digits, or nothing."""
    if value is None:
        return ""
    return "infinite" if math.isinf(value) else f"{value:.3g}"


def factor(value: float | None) -> str:
    """What something is multiplied with."""
    return "" if value is None or math.isnan(value) else f"× {value:.3g}"


def percent(share: float | None) -> str:
    """A share in per cent, small ones not as zero."""
    if share is None:
        return ""
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1f} %"


def joined(parts: list[str]) -> str:
    """a; a and b; a, b and c."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
