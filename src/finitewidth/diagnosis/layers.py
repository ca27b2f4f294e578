"""The table of layers: what each does to signals and gradients, beside what a critical layer would do."""

from collections.abc import Mapping, Sequence

from finitewidth.diagnosis import critical
from finitewidth.diagnosis.result import LayerRow
from finitewidth.diagnosis.sizes import effective_units
from finitewidth.measure.sites import Site


def layer_rows(sites: Sequence[Site], shares: Mapping[str, float]) -> tuple[LayerRow, ...]:
    """One row a site, in the order of the computation."""
    rows = []
    for place, site in enumerate(sites):
        before = sites[place - 1] if place else None
        behind = sites[place + 1] if place + 1 < len(sites) else None
        rows.append(
            LayerRow(
                name=site.name,
                kind=site.kind,
                units=site.leaving.shape[-1],
                activation=site.activation,
                signal=critical.signal(site),
                gradient=critical.gradient(site),
                forward=None if before is None else critical.measured_factors(before, site).forward,
                backward=None if behind is None else critical.measured_factors(site, behind).backward,
                critical_forward=1.0 if before is None else _critical(before, site).forward,
                critical_backward=1.0 if behind is None else _critical(site, behind).backward,
                dead=None,
                saturated=None,
                effective_units=effective_units(site.leaving),
                share=shares.get(_layer_of(site)),
            )
        )
    return tuple(rows)


def _critical(below: Site, above: Site) -> critical.Factors:
    """What a critical layer does between two sites, where the theory knows what stands between them."""
    if not critical.follows(below, above):
        return critical.ONE
    return critical.critical_factors(below.activation, critical.signal(below))


def _layer_of(site: Site) -> str:
    return site.parameter.rpartition(".")[0] or site.parameter
