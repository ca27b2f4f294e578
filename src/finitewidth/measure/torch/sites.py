"""The sites of a PyTorch module: every function that it calls is seen on the way.

Modules, functional calls and operators all pass through a TorchFunctionMode, so that no hook is put on the
module. What leaves a site is handed on as a copy: an activation in place then changes the copy.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from finitewidth.measure.activation_names import GRID, activation_name, keeps_sign
from finitewidth.measure.sites import Site, name_of_layer, numbered
from finitewidth.measure.torch.functions import (
    CONTRACTIONS,
    CONVOLUTIONS,
    ELEMENTWISE,
    MOVES,
    MULTIPLICATIONS,
    PARTS,
    PERMUTATIONS,
    PRODUCTS,
    SCALINGS,
    SUMS,
    changes_in_place,
    name_of_function,
    only_new_axes,
    tensors_in,
)
from finitewidth.measure.torch.recurrent import RECURRENT, Gate, recurrent

_CURVE = torch.as_tensor(GRID)


def look(
    module: torch.nn.Module, weights: dict[str, torch.Tensor], x: Any, cotangent: np.ndarray
) -> tuple[Site, ...]:
    """The sites of a module at these weights, with what flows back from a cotangent (points, out).

    `weights` may hold buffers too; what it lacks is the module's own.
    """
    parameters = dict(module.named_parameters())
    buffers = dict(module.named_buffers())
    given = buffers | parameters | weights
    # Copies of the buffers: a module may write to them.
    state = {name: tensor.clone() if name in buffers else tensor for name, tensor in given.items()}
    watch = _Watch({name: state[name] for name in parameters}, x, len(cotangent))
    with torch.enable_grad(), _slow_attention(), watch:
        outputs = torch.func.functional_call(module, state, (x,))
    watch.consume(outputs)
    passed_on = [found.z for found in watch.sites]
    if not passed_on:
        return ()
    u = torch.as_tensor(cotangent).to(outputs).reshape(outputs.shape)
    gradients = torch.autograd.grad(outputs, passed_on, u, allow_unused=True)
    names = numbered(found.name for found in watch.sites)
    return tuple(
        Site(
            name=name,
            kind=found.kind,
            entering=found.entering,
            leaving=found.leaving,
            gradient=np.zeros_like(found.leaving)
            if gradient is None
            else watch.arranged(gradient, found.axes),
            activation=found.activation,
            activated=found.activated,
            parameter=found.parameter,
            gate=found.weighs and not found.carries,
        )
        for name, found, gradient in zip(names, watch.sites, gradients, strict=True)
    )


@contextmanager
def _slow_attention() -> Iterator[None]:
    """Attention in operations that can be seen, instead of one that does all."""
    usual = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(usual)


@dataclasses.dataclass(frozen=True)
class _Axes:
    """Which axis of a tensor counts the points, and which the units of its last site."""

    points: int | None
    units: int | None


@dataclasses.dataclass
class _Found:
    """A site while the module runs: what follows it is not known yet."""

    name: str
    parameter: str
    kind: str
    entering: np.ndarray
    leaving: np.ndarray
    z: torch.Tensor
    axes: _Axes
    activation: str | None = None
    activated: np.ndarray | None = None
    weighs: bool = False
    carries: bool = False


@dataclasses.dataclass(eq=False)
class _Root:
    """A tensor that is no function, entry by entry, of another one."""

    value: torch.Tensor
    site: int
    axes: _Axes
    leaves_site: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class _Knowledge:
    """What is known of a tensor that depends on the inputs."""

    root: _Root
    """The tensor of whose entries it is a function, entry by entry."""
    curve: torch.Tensor
    """The function, on the grid."""
    layout: object
    """The order and shape in which the entries stand."""
    site: int
    """The last site that it depends on; -1 before the first."""
    axes: _Axes
    linear_in: frozenset[int] = frozenset()
    """The sites whose numbers it holds, moved, scaled or summed."""
    mixed: bool = False
    """Whether it is so made of a product of activations with activations."""


class _Watch(TorchFunctionMode):
    """Notes the sites while a module runs."""

    def __init__(self, parameters: dict[str, torch.Tensor], x: Any, points: int):
        super().__init__()
        self.sites: list[_Found] = []
        self._points = points
        self._parameters = {id(tensor): name for name, tensor in parameters.items()}
        self._known: dict[int, _Knowledge] = {}
        # Tensors are told apart by their ids, which are used again when a tensor is gone.
        self._kept: list[Any] = [parameters]
        for part in tensors_in(x):
            self._note(part, self._fresh(part, -1, _Axes(0, None)))

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        """Run a function that the module calls, and note what it does."""
        kwargs = kwargs or {}
        name = "unsqueeze" if only_new_axes(func, args) else name_of_function(func)
        tensors = list(tensors_in((args, kwargs)))
        data = [tensor for tensor in tensors if id(tensor) in self._known]
        if not data:
            return self._without_data(func(*args, **kwargs), tensors)
        if name == "multi_head_attention_forward":
            return self._attention(func, args, kwargs)
        if name in RECURRENT and id(args[0]) in self._known:
            written_out = recurrent(name, args)
            if written_out is not None:
                return self._recurrent(args[0], *written_out)
        if changes_in_place(func, args, kwargs):
            root = self._known[id(args[0])].root if id(args[0]) in self._known else None
            if root is not None and root.value.data_ptr() == args[0].data_ptr():
                root.value = root.value.detach().clone()
        known = [self._known[id(tensor)] for tensor in data]
        weight = self._largest_parameter(tensors)
        out = func(*args, **kwargs)
        if name in CONTRACTIONS and weight is not None and len(data) == 1:
            return self._contraction(name, out, data[0], weight, tensors)
        if name in SUMS and weight is not None and len(tensors) == 2 and self._leaves_site(data[0]):
            return self._with_bias(out, known[0])
        curve = self._curve(name, func, args, kwargs, known)
        if name in PRODUCTS and len(data) > 1:
            for site in frozenset.union(*(knowledge.linear_in for knowledge in known)):
                self.sites[site].kind = "attention"
        last = max(known, key=lambda knowledge: knowledge.site)
        source = data[known.index(last)]
        linear = name in MOVES | PARTS | SUMS or (name in SCALINGS and len(data) == 1)
        held: dict = {
            "linear_in": frozenset.union(*(k.linear_in for k in known)) if linear else frozenset(),
            "mixed": (linear and any(k.mixed for k in known)) or (name in PRODUCTS and len(data) > 1),
        }
        if curve is None and name not in MOVES:
            for tensor in data:
                self.consume(tensor, as_factor=name in MULTIPLICATIONS and len(data) == 2)
        for result in tensors_in(args[0] if name == "setitem" else out):
            axes = self._follow(name, func, args, kwargs, source, result, last.axes)
            if curve is not None:
                self._note(result, dataclasses.replace(last, curve=curve, axes=axes, **held))
            elif name in MOVES:
                self._note(result, dataclasses.replace(last, layout=object(), axes=axes, **held))
            else:
                self._note(result, self._fresh(result, last.site, axes, **held))
        return out

    def consume(self, tensor: torch.Tensor, *, as_factor: bool = False) -> None:
        """Name the activation that led to a tensor, once it is used by anything but arithmetic.

        `as_factor`: it is multiplied with another tensor that depends on the inputs.
        """
        knowledge = self._known.get(id(tensor))
        if knowledge is None or knowledge.curve is _CURVE or knowledge.site < 0:
            return
        name = activation_name(knowledge.curve.numpy())
        root, found = knowledge.root, self.sites[knowledge.root.site]
        if name is None:
            return
        if found.activation is None:
            found.activation = name
            found.activated = None if root.leaves_site else self.arranged(root.value, root.axes)
        weighs = as_factor and keeps_sign(knowledge.curve.numpy())
        found.weighs, found.carries = found.weighs or weighs, found.carries or not weighs

    def arranged(self, tensor: torch.Tensor, axes: _Axes) -> np.ndarray:
        """(points, positions..., units): positions of length 1 are left out."""
        array = tensor.detach().cpu().numpy().copy()
        units = array.ndim - 1 if axes.units is None else axes.units
        array = np.moveaxis(array, (axes.points or 0, units), (0, -1)) if array.ndim > 1 else array
        if len(array) != self._points:  # points and positions have been merged
            array = array.reshape(self._points, -1, array.shape[-1])
        return array.reshape(len(array), *(n for n in array.shape[1:-1] if n != 1), *array.shape[1:][-1:])

    def _contraction(
        self, name: str, out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, tensors: list
    ) -> torch.Tensor:
        knowledge = self._known[id(x)]
        self.consume(x)
        kind = "convolution" if name in CONVOLUTIONS else "embedding" if name == "embedding" else "dense"
        channels = out.ndim - 1
        if kind == "convolution":
            channels = 1
        elif name in PRODUCTS and tensors[0] is weight and out.ndim > 1:
            channels = out.ndim - 2
        if knowledge.mixed and kind == "dense":
            kind = "attention"
        entering = _Axes(knowledge.axes.points, {"convolution": 1}.get(kind))
        axes = self._points_within(out, knowledge.axes.points, channels)
        parameter = self._parameters[id(weight)]
        return self._site(name_of_layer(parameter), parameter, kind, x, entering, out, axes)

    def _site(
        self,
        name: str,
        parameter: str,
        kind: str,
        x: torch.Tensor,
        entering: _Axes,
        z: torch.Tensor,
        axes: _Axes,
    ) -> torch.Tensor:
        """Note a site, and hand on a copy of what leaves it."""
        if not z.requires_grad:
            z.requires_grad_()
        came_in = x.detach().cpu().numpy().copy() if kind == "embedding" else self.arranged(x, entering)
        self.sites.append(_Found(name, parameter, kind, came_in, self.arranged(z, axes), z, axes))
        return self._leaving(z.clone(), len(self.sites) - 1, axes)

    def _leaving(self, value: torch.Tensor, site: int, axes: _Axes) -> torch.Tensor:
        root = _Root(value, site, axes, leaves_site=True)
        self._note(value, _Knowledge(root, _CURVE, root, site, axes, frozenset([site])))
        return value

    def _with_bias(self, out: torch.Tensor, knowledge: _Knowledge) -> torch.Tensor:
        self.sites[knowledge.site].leaving = self.arranged(out, knowledge.axes)
        return self._leaving(out, knowledge.site, knowledge.axes)

    def _leaves_site(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor just left a site that has no bias yet."""
        root = self._known[id(tensor)].root
        return root.value is tensor and root.leaves_site and self.sites[root.site].z.shape == tensor.shape

    def _attention(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """Attention of (positions, points, channels): its four projections are sites.

        The projections are made here, and the function is left with identities in their places.
        """
        given = inspect.signature(func).bind(*args, **kwargs)
        given.apply_defaults()
        a = given.arguments
        names = {
            part: self._parameters.get(id(a[part]), "")
            for part in (
                "in_proj_weight",
                "q_proj_weight",
                "k_proj_weight",
                "v_proj_weight",
                "out_proj_weight",
            )
        }
        if a["use_separate_proj_weight"]:
            parts = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
            ins, owners = [a[part] for part in parts], [names[part] for part in parts]
        else:
            ins, owners = a["in_proj_weight"].chunk(3), [names["in_proj_weight"]] * 3
        biases = [None] * 3 if a["in_proj_bias"] is None else a["in_proj_bias"].chunk(3)
        layer = owners[0].rpartition(".")[0] or "attention"
        axes = _Axes(1, None)
        for part, weight, bias, owner in zip(("query", "key", "value"), ins, biases, owners, strict=True):
            z = F.linear(a[part], weight, bias)
            if id(a[part]) in self._known:
                self.consume(a[part])
                z = self._site(f"{layer}.{part}", owner, "attention", a[part], axes, z, axes)
            # A learned query depends on no input: it is a parameter, and no site.
            a[part] = z
        one = torch.eye(a["embed_dim_to_check"], dtype=a["query"].dtype, device=a["query"].device)
        out_weight, out_bias = a["out_proj_weight"], a["out_proj_bias"]
        a |= {"use_separate_proj_weight": True, "in_proj_weight": None, "in_proj_bias": None}
        a |= {"q_proj_weight": one, "k_proj_weight": one, "v_proj_weight": one}
        a |= {"out_proj_weight": one, "out_proj_bias": None}
        mixed, scores = func(*given.args, **given.kwargs)
        z = F.linear(mixed, out_weight, out_bias)
        out = self._site(f"{layer}.out", names["out_proj_weight"], "attention", mixed, axes, z, axes)
        return out, scores

    def _recurrent(self, x: torch.Tensor, results: tuple, gates: list[Gate]) -> tuple:
        """A recurrent layer (points, times, channels) of which every gate is a site."""
        self.consume(x)
        axes = _Axes(0, None)
        for gate in gates:
            parameter = self._parameters.get(id(gate.weight), "")
            layer = parameter.rpartition(".")[0]
            name = f"{layer}.{gate.name}" if layer else gate.name
            entering, leaving = (self.arranged(part, axes) for part in (gate.entering, gate.leaving))
            found = _Found(name, parameter, "recurrent", entering, leaving, gate.tap, axes, gate.activation)
            found.weighs, found.carries = gate.weighs, not gate.weighs
            self.sites.append(found)
        for number, result in enumerate(results):
            # The whole sequence has the axes of the inputs, the last states (layers, points, units).
            points = self._known[id(x)].axes.points if number == 0 else 1
            self._note(result, self._fresh(result, len(self.sites) - 1, _Axes(points, None)))
        return results

    def _curve(
        self, name: str, func: Callable, args: tuple, kwargs: dict, known: list[_Knowledge]
    ) -> torch.Tensor | None:
        """The function of the root's entries that this call makes, if it is elementwise."""
        if name not in ELEMENTWISE or len({(id(k.root), id(k.layout)) for k in known}) > 1:
            return None
        operands, settings = [], {}
        for key, value in (*enumerate(args), *kwargs.items()):
            if isinstance(value, torch.Tensor):
                if id(value) in self._known:
                    value = self._known[id(value)].curve.clone()
                elif value.numel() == 1 and id(value) not in self._parameters:
                    value = value.detach().reshape(())
                else:
                    return None
            if isinstance(key, int):
                operands.append(value)
            else:
                settings[key] = value
        return func(*operands, **settings)

    def _follow(
        self,
        name: str,
        func: Callable,
        args: tuple,
        kwargs: dict,
        source: torch.Tensor,
        result: torch.Tensor,
        axes: _Axes,
    ) -> _Axes:
        if name in PERMUTATIONS and args[0] is source:
            # Axes of different lengths show where each of them went.
            moved = list(
                func(torch.empty(tuple(range(2, 2 + source.ndim)), device="meta"), *args[1:], **kwargs).shape
            )
            places = (None if axis is None else moved.index(2 + axis) for axis in (axes.points, axes.units))
            return _Axes(*places)
        units = axes.units
        kept = units is not None and source.ndim == result.ndim and source.shape[units] == result.shape[units]
        return self._points_within(result, axes.points, units if kept else None)

    def _points_within(self, tensor: torch.Tensor, points: int | None, units: int | None) -> _Axes:
        if points is not None and points < tensor.ndim and tensor.shape[points] == self._points:
            return _Axes(points, units)
        return _Axes(0 if tensor.ndim and tensor.shape[0] % self._points == 0 else None, units)

    def _fresh(self, value: torch.Tensor, site: int, axes: _Axes, **held: Any) -> _Knowledge:
        root = _Root(value, site, axes)
        return _Knowledge(root, _CURVE, root, site, axes, **held)

    def _note(self, tensor: torch.Tensor, knowledge: _Knowledge) -> None:
        self._known[id(tensor)] = knowledge
        self._kept.append(tensor)

    def _largest_parameter(self, tensors: list[torch.Tensor]) -> torch.Tensor | None:
        own = [tensor for tensor in tensors if id(tensor) in self._parameters]
        return max(own, key=lambda tensor: tensor.numel(), default=None)

    def _without_data(self, out: Any, tensors: list[torch.Tensor]) -> Any:
        """What is made of parameters alone is a parameter under its name."""
        weight = self._largest_parameter(tensors)
        if weight is not None:
            for tensor in tensors_in(out):
                self._parameters.setdefault(id(tensor), self._parameters[id(weight)])
                self._kept.append(tensor)
        return out
