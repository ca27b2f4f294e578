"""The table of layers: what each does to signals and gradients, beside what a critical layer would do."""

from collections.abc import Mapping, Sequence

from finitewidth.advice.diagnosis.critical import ONE, Factors, critical_factors, follows
from finitewidth.advice.diagnosis.result import LayerRow
from finitewidth.advice.diagnosis.sizes import layer_of
from finitewidth.measure.layers.faults import Fault
from finitewidth.measure.layers.signals import Signals, SiteSignals
from finitewidth.measure.sites import Site


def layer_rows(
    sites: Sequence[Site], found: Signals, shares: Mapping[str, float], faults: Sequence[Fault]
) -> tuple[LayerRow, ...]:
    """One row a site, in the order of the computation; sites beside each other are one step of the depth."""
    steps = found.steps
    site_of = {site.name: site for site in sites}
    rows = []
    for number, step in enumerate(steps):
        before = steps[number - 1] if number else None
        behind = steps[number + 1] if number + 1 < len(steps) else None
        for signals in step:
            site = site_of[signals.name]
            rows.append(
                LayerRow(
                    name=site.name,
                    kind=site.kind,
                    units=signals.units,
                    activation=site.activation,
                    signal=signals.forward,
                    gradient=signals.backward,
                    forward=None if before is None else _ratio(signals.forward, _mean_square(before)),
                    backward=None if behind is None else _ratio(_gradient(step), _gradient(behind)),
                    critical_forward=_critical(before, step, site_of).forward,
                    critical_backward=_critical(step, behind, site_of).backward,
                    dead=signals.dead,
                    saturated=signals.saturated,
                    effective_units=signals.effective_units,
                    share=shares.get(layer_of(site.parameter)),
                    gate=signals.gate,
                    flag=", ".join(fault.name for fault in faults if fault.site == site.name),
                )
            )
    return tuple(rows)


def _mean_square(step: Sequence[SiteSignals]) -> float:
    return sum(site.forward for site in step) / len(step)


def _gradient(step: Sequence[SiteSignals]) -> float:
    return sum(site.backward for site in step)


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else float("inf" if above > 0 else "nan")


def _critical(
    below: Sequence[SiteSignals] | None, above: Sequence[SiteSignals] | None, site_of: Mapping[str, Site]
) -> Factors:
    """What a critical layer does between two steps, where the theory knows what stands between them."""
    if below is None or above is None or len(below) > 1:
        return ONE
    first, second = site_of[below[0].name], site_of[above[0].name]
    return critical_factors(first.activation, below[0].forward) if follows(first, second) else ONE
