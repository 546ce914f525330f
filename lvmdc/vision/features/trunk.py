"""The part of a network that turns images into maps of features."""

import difflib
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

SIDE = 256  # of the trial image: a power of 2 distinguishes a map, which grows with the image, from one pooled to 7 × 7 cells or 1


def feature_trunk(network: nn.Module, stride: int = 32, name: str = "it") -> tuple[fx.GraphModule, int]:
    """The network as far as its last map of one cell to `stride` pixels, and the channels of that map.

    Batch normalisations are folded into the convolutions before them, which saves a fifth of the time.

    >>> network = nn.Sequential(nn.Conv2d(3, 8, 2, stride=2), nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> trunk, channels = feature_trunk(network, stride=2)
    >>> trunk(torch.zeros(1, 3, 64, 32)).shape, channels
    (torch.Size([1, 8, 32, 16]), 8)
    """
    network = network.eval().requires_grad_(False)
    try:
        traced = fx.symbolic_trace(network)
        trial = _Shapes(traced)
        with torch.inference_mode():
            trial.run(torch.zeros(1, 3, SIDE, SIDE))
    except Exception as error:  # a trace meets every kind
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"backbone must be a convolutional network that takes images of any size, but {name} does not: {reason}") from None
    last = {SIDE // shape[2]: node for node, shape in trial.shapes.items() if _is_map(shape)}  # the last of every stride
    if not last:
        sides = sorted({shape[2] for shape in trial.shapes.values() if len(shape) == 4 and 1 < shape[2] < SIDE}, reverse=True)
        raise ValueError(
            f"backbone must have a map with one cell to a whole number of pixels, but {name} has none: {SIDE} pixels per side"
            f" become {', '.join(map(str, sides)) or 'no'} cells"
        )
    if stride not in last:
        strides = ", ".join(map(str, sorted(last)))
        raise ValueError(f"stride must be that of a map of the backbone ({name} has {strides}), but it is {stride}")
    channels = trial.shapes[last[stride]][1]
    next(node for node in traced.graph.nodes if node.op == "output").args = (last[stride],)
    traced.graph.eliminate_dead_code()
    _fold_batch_norms(traced)
    traced.delete_all_unused_submodules()
    traced.graph.lint()
    traced.recompile()
    return traced, channels


def divided(trunk: fx.GraphModule, last: str) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The trunk in two: as far as the end of its part `last`, and what follows; both share its weights.

    >>> layers = nn.Sequential(nn.Conv2d(3, 8, 2, stride=2), nn.ReLU(), nn.Conv2d(8, 4, 2, stride=2))
    >>> first, rest = divided(feature_trunk(layers, stride=4)[0], "1")
    >>> first(torch.zeros(1, 3, 64, 64)).shape, [name for name, _ in rest.named_parameters()]
    (torch.Size([1, 8, 32, 32]), ['2.weight', '2.bias'])
    """
    nodes = [node for node in trunk.graph.nodes if node.op != "output"]
    within = [i for i, node in enumerate(nodes) if _is_in(node, last)]
    names = dict.fromkeys(name.partition("@")[0] for node in nodes for name in node.meta.get("nn_module_stack", {}))
    if not within:
        near = difflib.get_close_matches(last, names, n=1, cutoff=0.0)
        raise ValueError(f"frozen must name a part of the network, such as {near[0]}, but it is {last!r}")
    cut, early, late = nodes[within[-1]], set(nodes[: within[-1]]), nodes[within[-1] + 1 :]
    if not late:
        raise ValueError(f"frozen must leave something to learn, but nothing comes after {last}")
    if any(early & set(node.all_input_nodes) for node in late):
        raise ValueError(f"frozen must name a part whose end is all that the rest of the network sees, but something bypasses {last}")
    return _of_nodes(trunk, nodes[: within[-1] + 1]), _of_nodes(trunk, late, cut)


def _is_in(node: fx.Node, part: str) -> bool:
    """Whether the node belongs to the part; one that runs several times has `@1` and so on behind its name."""
    names = (name.partition("@")[0] for name in node.meta.get("nn_module_stack", {}))
    return any(name == part or name.startswith(f"{part}.") for name in names)


def _of_nodes(trunk: fx.GraphModule, nodes: list[fx.Node], given: fx.Node | None = None) -> fx.GraphModule:
    """These nodes alone, with `given` as the input."""
    graph = fx.Graph()
    copies = {} if given is None else {given: graph.placeholder("maps")}
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda other: copies[other])
    graph.output(copies[nodes[-1]])
    graph.lint()
    return fx.GraphModule(trunk, graph)


class _Shapes(fx.Interpreter):
    """A run that records the shape of every tensor, in order."""

    def __init__(self, traced: fx.GraphModule):
        super().__init__(traced)
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor) and n.op not in ("placeholder", "output"):
            self.shapes[n] = tuple(result.shape)
        return result


def _is_map(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[2] == shape[3] and 1 < shape[2] < SIDE and SIDE % shape[2] == 0


def _fold_batch_norms(traced: fx.GraphModule) -> None:
    for node in list(traced.graph.nodes):
        norm, conv = _module(traced, node), _module(traced, node.args[0]) if node.args else None
        if type(norm) is nn.BatchNorm2d and type(conv) is nn.Conv2d and len(node.args[0].users) == 1:
            traced.set_submodule(node.args[0].target, fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)


def _module(traced: fx.GraphModule, node: Any) -> nn.Module | None:
    """The module of a step of the trace, if it runs in this step alone."""
    if not isinstance(node, fx.Node) or node.op != "call_module":
        return None
    once = sum(other.op == "call_module" and other.target == node.target for other in traced.graph.nodes) == 1
    return traced.get_submodule(str(node.target)) if once else None
