"""An accelerator that is simulated on the CPU, to find what CUDA would refuse where there is no GPU.

A tensor on the device `standin` computes with a CPU tensor inside and reports another device. As on CUDA, an operation that mixes it with
CPU tensors raises, so does a draw from a generator of the CPU, `.numpy()` raises, and `.cpu()` copies. `count()` says what a block of code
asks of the device.

    import standin
    with standin.count() as seen:
        DISC().fit(candidates.to("standin"), y)
    print(seen.operations, seen.syncs, seen.copied_bytes)

It is an experimental interface of torch, and takes torch ≥ 2.12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "standin"
_setup_privateuseone_for_python_backend(NAME)
DEVICE = torch.device(NAME, 0)
COPIES = {"aten::_to_copy", "aten::copy_", "aten::_copy_from"}  # may mix devices
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}  # CUDA takes CPU indices, too
JOINS = {"aten::cat", "aten::stack"}  # take no single numbers of the CPU
TO_HOST = {"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero"}  # return a number, for which the host waits
WAITS = TO_HOST | {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_consecutive", "aten::unique_dim"}
LENGTHS = {"aten::repeat_interleave"}  # the host waits for the size of the result, unless output_size gives it
FREE = {"aten::detach", "aten::view", "aten::_unsafe_view", "aten::alias", "aten::expand", "aten::t", "aten::transpose", "aten::permute"}
FREE |= {"aten::slice", "aten::select", "aten::unsqueeze", "aten::squeeze", "aten::split", "aten::split_with_sizes", "aten::as_strided"}
FREE |= {"aten::unbind", "aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty"}  # start nothing on a device


PRODUCTS = torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__
SET_DATA = torch.Tensor.data.__set__


@dataclass
class Seen:
    """What a block of code asked of the device. `operations` are all of them; `launches` those that start a kernel there, not a view or a
    copy from or to the host; `syncs` are waits of the host, copies to it among them."""

    operations: int = 0
    launches: int = 0
    syncs: int = 0
    copies: int = 0
    copied_bytes: int = 0
    names: Counter[str] = field(default_factory=Counter)


_seen: list[Seen] = []


@contextmanager
def count() -> Iterator[Seen]:
    """Count what the block asks of the device."""
    _seen.append(Seen())
    try:
        yield _seen[-1]
    finally:
        _seen.pop()


class StandIn(torch.Tensor):
    """A tensor on the device, with its numbers in `raw` on the CPU."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> StandIn:
        layout = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, raw.size(), device=DEVICE, **layout)
        made.raw = raw
        return made

    def __repr__(self) -> str:
        return f"StandIn({self.raw!r})"

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.detach().cpu().__reduce_ex__(protocol)  # a file that is read gives tensors on the CPU

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.is_inference_mode_enabled():  # which does not divide an operation into those of the device
            found = func.decompose(*args, **(kwargs or {}))
            if found is not NotImplemented:
                return found
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation on the tensors inside; its results are on the device."""
    name = func._schema.name
    given = list(_leaves((*args, *kwargs.values())))
    tensors = [one for one in given if isinstance(one, torch.Tensor)]
    if any(isinstance(one, torch.Generator) for one in given):
        raise RuntimeError(f"{name}: expected a generator of {DEVICE}, but it is of the CPU")
    if name not in COPIES:
        for one in _leaves((args[0], args[2:])) if name in INDEXING else tensors:
            if isinstance(one, torch.Tensor) and not isinstance(one, StandIn) and (one.dim() > 0 or name in JOINS):
                raise RuntimeError(f"{name}: expected all tensors on {DEVICE}, but one of shape {tuple(one.shape)} is on the CPU")
    target = kwargs.get("device")
    inside = _mapped(args, lambda one: one.raw if isinstance(one, StandIn) else one)
    named = {key: _mapped(one, lambda one: one.raw if isinstance(one, StandIn) else one) for key, one in kwargs.items()}
    if target is not None and torch.device(target).type == NAME:
        named["device"] = "cpu"
    out = torch.ops.aten.copy_(inside[1], inside[0]) if name == "aten::_copy_from" else func(*inside, **named)
    from_device = any(isinstance(one, StandIn) for one in tensors)
    if name == "aten::_to_copy":
        to_device = from_device if target is None else torch.device(target).type == NAME
        _note(name, out, crossed=from_device != to_device, to_host=from_device and not to_device)
        return StandIn(out) if to_device else out
    if name in COPIES:
        to = args[0] if name == "aten::copy_" else args[1]
        crossed = not all(isinstance(one, StandIn) for one in tensors)
        _note(name, out, crossed=crossed, to_host=crossed and not isinstance(to, StandIn))
        return to
    _note(name, out, sizeless=name in LENGTHS and named.get("output_size") is None)
    if name in TO_HOST:
        return out
    same = {id(one.raw): one for one in tensors if isinstance(one, StandIn)}  # operations in place return their argument

    def on_device(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        return same[id(one)] if id(one) in same else StandIn(one)

    return _mapped(out, on_device)


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    """What is in lists and tuples. torch's pytree takes ten times as long."""
    for one in values:
        if isinstance(one, list | tuple):
            yield from _leaves(one)
        else:
            yield one


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    return type(value)([_mapped(one, change) for one in value]) if type(value) in (list, tuple) else change(value)


def _note(name: str, out: Any, crossed: bool = False, to_host: bool = False, sizeless: bool = False) -> None:
    for seen in _seen:
        seen.operations += 1
        if crossed:
            seen.copies += 1
            seen.copied_bytes += out.numel() * out.element_size()
        elif name not in FREE:
            seen.launches += 1
            seen.names[name] += 1
        seen.syncs += to_host or sizeless or name in WAITS


class _Factories(TorchFunctionMode):
    """`torch.tensor(…, device="standin")` and the like make a tensor on the CPU and move it."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.__format__ and isinstance(args[0], StandIn):
            return func(args[0].detach().cpu(), *args[1:])
        if func in PRODUCTS and isinstance(args[0], StandIn) and (args[0].dim(), args[1].dim()) == (1, 2):
            return torch.mv(args[1].T, args[0])  # torch squeezes the product in place, which a tensor around another does not notice
        if func == SET_DATA and isinstance(args[0], StandIn):
            args[0].raw = args[1].raw
        device = kwargs.get("device")
        here = device is not None and not isinstance(device, int) and torch.device(device).type == NAME
        if here and getattr(func, "__name__", "") != "to" and not any(isinstance(one, StandIn) for one in _leaves(args)):
            if kwargs.get("generator") is not None:
                raise RuntimeError(f"expected a generator of {DEVICE}, but it is of the CPU")
            return func(*args, **kwargs | {"device": "cpu"}).to(NAME)
        return func(*args, **kwargs)


torch.library.Library("_", "IMPL").fallback(lambda op, *args, **kwargs: _run(op, args, kwargs), "PrivateUse1")
_aten = torch.library.Library("aten", "IMPL")
for _op in (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default, torch.ops.aten._copy_from.default):
    _aten.impl(_op, lambda *args, _op=_op, **kwargs: _run(_op, args, kwargs), "PrivateUse1")
torch.__future__.set_overwrite_module_params_on_conversion(True)  # `module.to(…)` cannot exchange what is inside a tensor

getattr(torch, NAME).get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]  # which torch.autocast asks
_factories = _Factories()
_factories.__enter__()
