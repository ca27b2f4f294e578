"""A program of JAX, read operation by operation, with a zero added to what leaves every site.

Each value is known to depend on the inputs ("data"), on parameters alone, or on neither. A contraction of the
first with the second is a site. The derivative by the added zero, the tap, is what flows back to the site.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, DebugInfo, DropVar, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array

from finitewidth.measure.activation_names import GRID, activation_name, keeps_sign
from finitewidth.measure.jax.elementwise import elementwise
from finitewidth.measure.jax.knowledge import (
    MOVES,
    Found,
    Knowledge,
    Root,
    Unfinished,
    fresh,
    inside_body,
    uniform_of,
    without_data,
)
from finitewidth.measure.unit_axes import follow, restored, units_last

_CALLS = {"jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "remat"}
_CUSTOM_DERIVATIVES = {"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"}
_PARTS = {"concatenate", "slice", "split"}
_SCALINGS = {"mul", "div"}
_SUMS = {"add", "add_any", "sub", "neg"}
# The place of a site's gradient in its tap: a number, or every one along that axis.
EVERY = -1


class Walk:
    """The sites of a program, found while it is interpreted; taps are zeros for the first reading."""

    def __init__(self, taps: Sequence[Array] | None):
        self.sites: list[Found] = []
        self.tapped: list[Array] = []
        self.before = Found()  # takes the activation of what entered the program
        self._taps = taps

    def run(
        self, jaxpr: Jaxpr, consts: Sequence, values: Sequence, known: Sequence[Knowledge], *, whole: bool
    ) -> tuple[list, list[Knowledge]]:
        """Outputs, and what is known of them; a `whole` program ends here, a part of one goes on outside."""
        environment: dict[Any, tuple[Any, Knowledge]] = {}
        uses = Counter(
            atom
            for atoms in (*(eqn.invars for eqn in jaxpr.eqns), jaxpr.outvars)
            for atom in atoms
            if not isinstance(atom, Literal)
        )

        def take(atom: Any, *, goes_on: bool = False) -> tuple[Any, Knowledge]:
            if isinstance(atom, Literal):
                return atom.val, Knowledge(uniform=uniform_of(atom.val))
            value, knowledge = environment[atom]
            if knowledge.unfinished is not None and not (goes_on and uses[atom] == 1):
                environment[atom] = value, knowledge = self._finish(value, knowledge.unfinished)
            return value, knowledge

        for var, value in zip(jaxpr.constvars, consts, strict=True):
            environment[var] = value, Knowledge(uniform=uniform_of(value))
        for var, value, knowledge in zip(jaxpr.invars, values, known, strict=True):
            new = knowledge.data and knowledge.root is None and knowledge.unfinished is None
            environment[var] = value, fresh(value, -1) if new else knowledge
        for eqn in jaxpr.eqns:
            goes_on = eqn.primitive.name in _CALLS or self._may_precede_bias(eqn, environment)
            taken = [take(atom, goes_on=goes_on) for atom in eqn.invars]
            outs, after = self._operation(eqn, [value for value, _ in taken], [k for _, k in taken])
            environment.update(zip(eqn.outvars, zip(outs, after, strict=True), strict=True))
        ends = [take(atom, goes_on=not whole) for atom in jaxpr.outvars]
        if whole:
            for _, knowledge in ends:
                self._consume(knowledge)
        return [value for value, _ in ends], [knowledge for _, knowledge in ends]

    def _operation(self, eqn: JaxprEqn, values: list, known: list[Knowledge]) -> tuple[list, list[Knowledge]]:
        name = eqn.primitive.name
        if name in _CALLS or name in _CUSTOM_DERIVATIVES:
            inner = eqn.params["jaxpr" if "jaxpr" in eqn.params else "call_jaxpr"]
            jaxpr, consts = (inner, ()) if isinstance(inner, Jaxpr) else (inner.jaxpr, inner.consts)
            sites = len(self.sites)
            outs, after = self.run(jaxpr, consts, values, known, whole=False)
            inside = len(self.sites) > sites or any(k.unfinished for k in after)
            # Without a site inside, the function keeps the derivative that its author gave it.
            return (outs if inside or name in _CALLS else _bind(eqn, values)), after
        if name == "scan" and any(k.data for k in known):
            return self._scan(eqn, values, known)
        if any(k.unfinished for k in known):
            return self._towards_bias(eqn, values, known)
        outs = _bind(eqn, values)
        started = _start(eqn, values, known)
        if started is not None:
            for knowledge in known:
                self._consume(knowledge)
            if started.found.kind == "embedding":
                value, knowledge = self._finish(outs[0], started)
                return [value], [knowledge]
            return outs, [Knowledge(data=True, unfinished=started)]
        return outs, self._after(eqn, values, known, outs)

    def _after(self, eqn: JaxprEqn, values: list, known: list[Knowledge], outs: list) -> list[Knowledge]:
        """What is known of the outcome of an operation that is no site."""
        name = eqn.primitive.name
        data = [k for k in known if k.data]
        if not data:
            return [without_data(eqn, values, known)] * len(outs)
        linear = name in MOVES | _PARTS | _SUMS or (name in _SCALINGS and len(data) == 1)
        last = max(data, key=lambda k: k.site)
        held = {
            "units": follow(eqn, last.units, jnp.shape(values[known.index(last)]), jnp.shape(outs[0])),
            "linear_in": frozenset.union(*(k.linear_in for k in data)) if linear else frozenset(),
            "mixed": linear and any(k.mixed for k in data),
        }
        if name in MOVES:
            return [dataclasses.replace(last, layout=object(), **held)]
        if len({(id(k.root), id(k.layout)) for k in data}) == 1 and all(
            k.data or k.uniform is not None for k in known
        ):
            curve = elementwise(name, [k.curve if k.data else k.uniform for k in known], eqn.params)
            if curve is not None:
                return [dataclasses.replace(last, curve=curve, **held)]
        for knowledge in data:
            self._consume(knowledge, as_factor=name == "mul" and len(data) == 2)
        if name == "dot_general" and len(data) == 2:
            for site in frozenset.union(*(k.linear_in for k in data)):
                self.sites[site].kind = "attention"
            return [fresh(outs[0], max(k.site for k in data), mixed=True)]
        return [Knowledge() if out is None else fresh(out, last.site, **held) for out in outs]

    def _may_precede_bias(self, eqn: JaxprEqn, environment: dict) -> bool:
        """Whether what leaves this operation may be the site's output still, on the way to its bias."""
        name = eqn.primitive.name
        known = [
            Knowledge(uniform=uniform_of(atom.val)) if isinstance(atom, Literal) else environment[atom][1]
            for atom in eqn.invars
        ]
        unfinished = [k.unfinished for k in known if k.unfinished is not None]
        if len(unfinished) != 1 or sum(k.data for k in known) != 1:
            return False
        if name in ("add", "add_any"):
            return any(k.parameter is not None for k in known)
        if name == "mul" or (name == "div" and known[0].data):
            return any(k.uniform is not None for k in known)
        before, after = (getattr(atom.aval, "shape", ()) for atom in (eqn.invars[0], eqn.outvars[0]))
        return (
            name in MOVES
            and math.prod(before) == math.prod(after)
            and follow(eqn, unfinished[0].units, before, after) is not None
        )

    def _towards_bias(
        self, eqn: JaxprEqn, values: list, known: list[Knowledge]
    ) -> tuple[list, list[Knowledge]]:
        outs = _bind(eqn, values)
        unfinished = next(k.unfinished for k in known if k.unfinished is not None)
        if eqn.primitive.name in ("add", "add_any"):
            value, knowledge = self._finish(outs[0], unfinished)
            return [value], [knowledge]
        units = follow(eqn, unfinished.units, jnp.shape(values[0]), jnp.shape(outs[0]))
        if eqn.primitive.name in _SCALINGS:
            units = unfinished.units
        assert units is not None
        return outs, [Knowledge(data=True, unfinished=dataclasses.replace(unfinished, units=units))]

    def _finish(self, value: Any, unfinished: Unfinished) -> tuple[Any, Knowledge]:
        """Note what leaves the site, and add its tap."""
        found, units = unfinished.found, unfinished.units
        found.leaving = units_last(value, units)
        found.tap, tap = self._tap(found.leaving.shape, value.dtype)
        site = len(self.sites)
        self.sites.append(found)
        value = value + restored(tap, units, value.shape)
        root = Root(value, site, units, leaves_site=True)
        return value, Knowledge(
            data=True, site=site, root=root, curve=GRID, layout=root, units=units, linear_in=frozenset([site])
        )

    def _tap(self, shape: tuple[int, ...], dtype: Any) -> tuple[int, Array]:
        index = len(self.tapped)
        self.tapped.append(jnp.zeros(shape, dtype) if self._taps is None else self._taps[index])
        return index, self.tapped[-1]

    def _consume(self, knowledge: Knowledge, *, as_factor: bool = False) -> None:
        """Name the activation that led to a value, once the value is used by anything but arithmetic.

        `as_factor`: it is multiplied with other numbers that depend on the inputs.
        """
        root, curve = knowledge.root, knowledge.curve
        if root is None or curve is None or curve is GRID:
            return
        name = activation_name(curve)
        if name is not None:
            units = root.units or (max(root.value.ndim - 1, 0),)
            found = self._activate(
                root.site, name, None if root.leaves_site else units_last(root.value, units)
            )
            weighs = as_factor and keeps_sign(curve)
            found.weighs, found.carries = found.weighs or weighs, found.carries or not weighs

    def _activate(self, site: int, name: str, activated: Any) -> Found:
        found = self.sites[site] if site >= 0 else self.before
        if found.activation is None:
            found.activation, found.activated = name, activated
        return found

    def _scan(self, eqn: JaxprEqn, values: list, known: list[Knowledge]) -> tuple[list, list[Knowledge]]:
        """A scan: over a stack of layers, each of which has sites of its own, or over positions."""
        settings = eqn.params
        closed, length = settings["jaxpr"], settings["length"]
        first, second = settings["num_consts"], settings["num_consts"] + settings["num_carry"]
        for knowledge in known:
            self._consume(knowledge)
        fixed, carry, scanned = values[:first], values[first:second], values[second:]
        inside = [inside_body(k, changes=False) for k in known[:first]]
        inside += [inside_body(k, changes=True) for k in known[first:second]]
        inside += [inside_body(k, changes=True, in_stack=True) for k in known[second:]]
        read: list = []

        def step(carry: list, scanned_and_taps: tuple) -> tuple:
            scanned, taps = scanned_and_taps
            walk = Walk(taps)
            all_values = [*fixed, *carry, *scanned]
            outs, after = walk.run(closed.jaxpr, closed.consts, all_values, inside, whole=True)
            read[:] = walk, after
            arrays = [site.arrays for site in walk.sites], walk.before.activated
            return outs[: len(carry)], (outs[len(carry) :], arrays, walk.tapped)

        one = [jax.ShapeDtypeStruct(jnp.shape(v)[1:], jnp.result_type(v)) for v in scanned]
        while True:
            # A new function each time: JAX would remember what it read of the old one.
            tapped = jax.eval_shape(lambda *given: step(*given), carry, (one, None))[1][2]
            changed = [i for i in range(first, second) if read[1][i - first].data and not inside[i].data]
            if not changed:
                break
            for i in changed:
                inside[i] = Knowledge(data=True)
        if not tapped and read[0].before.activation is None:
            outs = _bind(eqn, values)
            return outs, self._after(eqn, values, known, outs)
        base = len(self.tapped)
        taps = [self._tap((length, *tap.shape), tap.dtype)[1] for tap in tapped]
        carry, (stacked, arrays, _) = lax.scan(
            step, carry, (scanned, taps), length=length, reverse=settings["reverse"]
        )
        order = list(range(length))[:: -1 if settings["reverse"] else 1]
        walk, after = read
        outside = max((k.site for k in known[first:second] if k.data), default=-1)
        lasts = self._unstack(walk, after, arrays, order, base, outside, settings["num_carry"])
        outs = [*carry, *stacked]
        return outs, [
            fresh(out, lasts[k.site]) if k.data else Knowledge(parameter=k.parameter)
            for out, k in zip(outs, after, strict=True)
        ]

    def _unstack(
        self,
        walk: "Walk",
        after: list,
        arrays: tuple,
        order: list[int],
        base: int,
        outside: int,
        carried: int,
    ) -> dict[int, int]:
        """Take over the sites of a scan; returns where those of its last step stand."""
        of_sites, before = arrays
        places = {-1: outside}
        by_layer = any(site.in_stack for site in walk.sites)
        back = max((k.site for k in after[:carried] if k.data), default=-1)
        for i in order if by_layer else [EVERY]:
            if walk.before.activation is not None and (by_layer or back == -1):
                activated = before[i] if by_layer else before
                self._activate(places[back] if i != order[0] else outside, walk.before.activation, activated)
            for j, (site, parts) in enumerate(zip(walk.sites, of_sites, strict=True)):
                entering, leaving, activated = parts
                place = (i, *site.place)
                changes: dict = {"tap": base + site.tap, "place": place}
                if by_layer:
                    changes["layer"] = (i, *site.layer)
                    entering, leaving = entering[i], leaving[i]
                    activated = None if activated is None else activated[i]
                changes |= {"entering": entering, "leaving": leaving, "activated": activated}
                places[j] = len(self.sites)
                self.sites.append(dataclasses.replace(site, **changes))
        return places


def _start(eqn: JaxprEqn, values: list, known: list[Knowledge]) -> Unfinished | None:
    """The site that this operation is, if it contracts data with a parameter."""
    name = eqn.primitive.name
    if name not in ("dot_general", "conv_general_dilated", "gather") or len(known) < 2:
        return None
    if [k.data for k in known[:2]] == [True, False]:
        own = 0
    elif [k.data for k in known[:2]] == [False, True]:
        own = 1
    else:
        return None
    weight = known[1 - own]
    if weight.parameter is None:
        return None
    numbers = eqn.params["dimension_numbers"]
    if name == "gather":
        if own == 0:
            return None
        kind, entering, units = "embedding", units_last(values[1], ()), tuple(numbers.offset_dims)
    elif name == "conv_general_dilated":
        kind, units = "convolution", (numbers.out_spec[1],)
        entering = units_last(values[0], (numbers.lhs_spec[1],))
    else:
        contracted, batched = numbers
        kind = "attention" if known[own].mixed else "dense"
        entering = units_last(values[own], tuple(contracted[own]))
        ranks = [jnp.ndim(value) - len(contracted[i]) - len(batched[i]) for i, value in enumerate(values)]
        start = len(batched[0]) + (0 if own == 1 else ranks[0])
        units = tuple(range(start, start + ranks[1 - own]))
    found = Found(weight.parameter, kind, weight.in_stack, entering=entering)
    return Unfinished(found, units)


def _bind(eqn: JaxprEqn, values: Sequence) -> list:
    """Run one operation as it stands; nothing stands for an outcome that nobody uses."""
    given = {
        atom: value for atom, value in zip(eqn.invars, values, strict=True) if not isinstance(atom, Literal)
    }
    used = [var for var in eqn.outvars if not isinstance(var, DropVar)]
    arguments, results = (f"[{i}]" for i in range(len(given))), (f"[{i}]" for i in range(len(used)))
    names = DebugInfo("operation", eqn.primitive.name, tuple(arguments), tuple(results))
    alone = Jaxpr((), list(given), used, [eqn], eqn.effects, names)
    outs = dict(zip(used, jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values()), strict=True))
    return [outs.get(var) for var in eqn.outvars]
