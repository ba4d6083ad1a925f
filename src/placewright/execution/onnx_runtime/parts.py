"""What each device runs without waiting or handing anything over in between: a part of the model, for one session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from placewright.execution.onnx_runtime.model import OnnxModel
from placewright.execution.steps import Receive, Run, Send, Signal, Step, Steps, Wait
from placewright.importers.onnx.records import values_read


@dataclass(frozen=True, kw_only=True)
class Part:
    """Ops of one device between two transfers.

    waits: channels that must be open before it runs. ops: of the graph, in order. nodes: of the model, in order, with
    those that the importer folds away. inputs, outputs: names of values that it is given, and that others read or the
    model returns, or one that nobody wants. opens: channels that are opened when it has run.
    """

    device: int
    waits: tuple[int, ...]
    ops: tuple[int, ...]
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opens: tuple[int, ...]


def parts_of(steps: Steps, model: OnnxModel) -> tuple[tuple[Part, ...], ...]:
    """The steps of each device of a plan as parts of a model, in its order."""
    devices = [[_part(device, cut, model) for cut in _cuts(own)] for device, own in enumerate(steps.of_device)]
    wanted = {name for own in devices for part in own for name in part.inputs}
    wanted.update(value.name for value in model.model.graph.output)
    return tuple(tuple(_with_outputs(part, wanted, model) for part in own) for own in devices)


@dataclass
class _Cut:
    """A part under construction, as steps."""

    waits: list[int] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    opens: list[int] = field(default_factory=list)


def _cuts(steps: Sequence[Step]) -> Iterator[_Cut]:
    """A part ends where the device hands something over, or must wait."""
    cut = _Cut()
    for step in steps:
        if isinstance(step, Send | Signal):
            cut.opens.append(step.channel)
            continue
        if isinstance(step, Run | Receive | Wait) and (cut.opens or (cut.ops and not isinstance(step, Run))):
            yield cut
            cut = _Cut()
        if isinstance(step, Run):
            cut.ops.append(step.op)
        elif isinstance(step, Receive | Wait):
            cut.waits.append(step.channel)
    if cut.waits or cut.ops or cut.opens:
        yield cut


def _part(device: int, cut: _Cut, model: OnnxModel) -> Part:
    """With its nodes and what they read, outputs still missing."""
    own = [model.node_of[op] for op in cut.ops if op in model.node_of]
    # A view that says how another one looks is run by whoever needs it, as what is folded away.
    elsewhere = frozenset(node for node, op in model.op_of.items() if model.graph.ops[op].kind != "view")
    nodes = model.with_makers(own, set(), elsewhere - set(own))
    made = {value for node in nodes for value in model.nodes[node].output}
    read = dict.fromkeys(value for node in nodes for value in values_read(model.nodes[node]))
    return Part(
        device=device,
        waits=tuple(cut.waits),
        ops=tuple(cut.ops),
        nodes=tuple(nodes),
        inputs=tuple(value for value in read if value not in made and value not in model.initializers),
        outputs=(),
        opens=tuple(cut.opens),
    )


def _with_outputs(part: Part, wanted: set[str], model: OnnxModel) -> Part:
    """A session returns something; where nobody wants what it makes, that is what its last op makes."""
    made = [value for node in part.nodes if node in model.op_of for value in model.nodes[node].output if value]
    return replace(part, outputs=tuple(value for value in made if value in wanted) or tuple(made[-1:]))
