"""Capturing modules and training steps: ops, aliases, in-place updates, phases and origins."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch importer needs PyTorch")

from torch import nn  # noqa: E402

from placewright.costs.traffic import count_bytes  # noqa: E402
from placewright.graph import Graph, Op, Tensor  # noqa: E402
from placewright.importers.torch.module import from_torch  # noqa: E402
from placewright.support.errors import InputError, MissingExtraError  # noqa: E402


def op_named(graph: Graph, name: str) -> Op:
    return next(op for op in graph.ops if op.name == name)


def tensor_named(graph: Graph, name: str) -> Tensor:
    return next(tensor for tensor in graph.tensors if tensor.name == name)


def read(graph: Graph, op: Op) -> list[str]:
    return [graph.tensors[index].name for index in op.inputs]


def alias_of(graph: Graph, name: str) -> str | None:
    base = tensor_named(graph, name).alias_of
    return None if base is None else graph.tensors[base].name


def before(graph: Graph, op: Op) -> set[str]:
    return {graph.ops[index].name for index in op.controls}


def count(graph: Graph, kind: str) -> int:
    return sum(op.kind == kind for op in graph.ops)


class Perceptron(nn.Module):
    """8 -> 16 -> 4."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def step() -> Graph:
    return from_torch(Perceptron(), (torch.zeros(3, 8),), training=True, name="perceptron")


def test_inference_of_a_perceptron_is_two_products_and_a_relu() -> None:
    graph = from_torch(Perceptron(), (torch.zeros(3, 8),), name="perceptron")
    assert [(op.name, op.kind) for op in graph.ops] == [
        ("input:x", "input"),
        ("t", "view"),
        ("addmm", "matmul"),
        ("relu", "elementwise"),
        ("t_1", "view"),
        ("addmm_1", "matmul"),
    ]
    assert [t.name for t in graph.tensors if t.is_output] == ["addmm_1:0"]
    assert {op.phase for op in graph.ops} == {""}
    module: dict[str, Any] = {"other_names": {}, "other_paths": {}, "unread": {}, "lists": []}
    assert graph.metadata == {"framework": "torch", "mode": "inference", "module": module}


def test_products_state_their_dimensions_and_bias(step: Graph) -> None:
    products = {op.name: op.attributes for op in step.ops if op.kind == "matmul"}
    assert products == {
        "addmm": {"batch": 1, "m": 3, "n": 16, "k": 8, "bias": True},
        "addmm_1": {"batch": 1, "m": 3, "n": 4, "k": 16, "bias": True},
        # gradient of the loss [3, 4] by the hidden layer: [3, 4] x [4, 16]
        "mm": {"batch": 1, "m": 3, "n": 16, "k": 4, "bias": False},
        # by second.weight: [4, 3] x [3, 16]
        "mm_1": {"batch": 1, "m": 4, "n": 16, "k": 3, "bias": False},
        # by first.weight: [16, 3] x [3, 8]; the input needs no gradient
        "mm_2": {"batch": 1, "m": 16, "n": 8, "k": 3, "bias": False},
    }


def test_phases_come_in_the_order_of_a_training_step(step: Graph) -> None:
    phases = [op.phase for op in step.ops]
    assert phases == sorted(phases, key=["forward", "backward", "optimizer"].index)
    assert set(phases) == {"forward", "backward", "optimizer"}


def test_the_backward_pass_starts_from_ones_made_after_the_loss(step: Graph) -> None:
    start = next(op for op in step.ops if op.phase == "backward")
    assert (start.kind, read(step, start)) == ("fill", ["mean:0"])
    assert tensor_named(step, "mean:0").is_output


def test_views_share_the_memory_of_what_they_show(step: Graph) -> None:
    for op in step.ops:
        aliases = {step.tensors[index].alias_of for index in op.outputs}
        if op.kind == "view":
            assert aliases == {op.inputs[0]}
    assert alias_of(step, "t:0") == "first.weight"


def test_each_parameter_is_updated_in_place_after_everything_that_reads_it(step: Graph) -> None:
    update = op_named(step, "adam:second.weight")
    assert update.attributes == {"function": "adam"}
    assert read(step, update)[0] == "second.weight"
    assert read(step, update)[2:] == ["second.weight.exp_avg", "second.weight.exp_avg_sq"]
    assert alias_of(step, "adam:second.weight:0") == "second.weight"
    # read through transposed views by the forward product and by the gradient of the hidden layer
    assert before(step, update) == {"addmm_1", "mm"}
    assert count(step, "optimizer") == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_adam_keeps_two_states_of_the_dtype_of_each_parameter(dtype: Any) -> None:
    graph = from_torch(nn.Linear(8, 4, dtype=dtype), (torch.zeros(2, 8, dtype=dtype),), training=True)
    assert tensor_named(graph, "weight.exp_avg").size_bytes == 8 * 4 * dtype.itemsize
    states = [t for t in graph.tensors if "exp_avg" in t.name]
    assert [(t.role, f"torch.{t.dtype}") for t in states] == [("parameter", str(dtype))] * 4


def test_sgd_keeps_no_state() -> None:
    graph = from_torch(Perceptron(), (torch.zeros(3, 8),), training=True, optimizer="sgd")
    assert read(graph, op_named(graph, "sgd:first.bias"))[0] == "first.bias"
    assert sum(t.role == "parameter" for t in graph.tensors) == 4


def test_a_frozen_parameter_has_no_optimizer_op() -> None:
    model = Perceptron()
    model.first.requires_grad_(False)
    graph = from_torch(model, (torch.zeros(3, 8),), training=True)
    assert [op.name for op in graph.ops if op.kind == "optimizer"] == ["adam:second.weight", "adam:second.bias"]


def test_layers_and_lines_are_kept_for_forward_and_backward(step: Graph) -> None:
    assert {op.module for op in step.ops if op.kind == "matmul"} == {"first", "second"}
    assert op_named(step, "mm_2").module == "first"
    assert op_named(step, "mm_2").source == op_named(step, "addmm").source
    assert op_named(step, "relu").source.startswith("test_torch_module.py:")


def test_no_path_of_the_machine_it_was_captured_on_is_kept(step: Graph) -> None:
    assert not any(op.source.startswith("/") or "site-packages" in op.source for op in step.ops)


def test_capturing_twice_gives_the_same_graph() -> None:
    graphs = [from_torch(Perceptron(), (torch.zeros(3, 8),), training=True, name="g") for _ in range(2)]
    assert graphs[0].fingerprint == graphs[1].fingerprint
    assert graphs[0].ops == graphs[1].ops


def test_a_model_without_memory_gives_the_same_graph_as_a_real_one(step: Graph) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        model = Perceptron()
    fake = from_torch(model, (torch.zeros(3, 8),), training=True, name="perceptron")
    assert fake.fingerprint == step.fingerprint


def test_an_exported_program_gives_the_same_graph_with_its_layers(step: Graph) -> None:
    program = torch.export.export(Perceptron().train(), (torch.zeros(3, 8),))
    graph = from_torch(program, (torch.zeros(3, 8),), training=True, name="perceptron")
    assert [(op.kind, op.module) for op in graph.ops] == [(op.kind, op.module) for op in step.ops]


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_program_is_named_after_the_module_it_was_made_of(strict: bool) -> None:
    program = torch.export.export(Perceptron(), (torch.zeros(3, 8),), strict=strict)
    assert from_torch(program, (torch.zeros(3, 8),)).name == "Perceptron"
    assert from_torch(program, (torch.zeros(3, 8),), name="mine").name == "mine"


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.output = nn.Linear(4, 10, bias=False)
        self.output.weight = self.table.weight

    def forward(self, tokens: Any) -> Any:
        return self.output(self.table(tokens))


def test_a_tied_weight_is_one_parameter_with_two_readers_and_one_update() -> None:
    graph = from_torch(Tied(), (torch.zeros(2, 3, dtype=torch.int64),), training=True)
    assert [t.name for t in graph.tensors if t.role == "parameter" and "exp_avg" not in t.name] == ["table.weight"]
    readers = [op.name for op in graph.ops if "table.weight" in read(graph, op) and op.phase == "forward"]
    assert readers == ["embedding", "t"]
    update = op_named(graph, "adam:table.weight")
    assert {"embedding", "mm"} <= before(graph, update)
    # the gradients of both uses are added before the update
    assert graph.ops[graph.producer_of[update.inputs[1]]].target == "aten.add.Tensor"


class InPlace(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x + 1
        y.mul_(2)
        y.relu_()
        return y


def test_other_names_and_what_no_op_reads_stand_in_the_metadata() -> None:
    """head.bias and the offset are 4 elements of 4 bytes, the counts 3 of 8. The activation is one object in two
    places, and so is the block, with all that is in it."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            activation = nn.Tanh()
            self.first, self.block = nn.Sequential(nn.Linear(4, 4), activation), nn.Sequential(activation)
            self.again, self.head, self.listed = self.block, nn.Linear(4, 4), nn.ModuleList()
            self.head.weight = self.first[0].weight
            self.offset = self.head.offset = nn.Parameter(torch.ones(4))
            self.register_buffer("counts", torch.ones(3, dtype=torch.int64), persistent=False)

        def forward(self, x: Any) -> Any:
            return self.again(self.block(self.first(x))) @ self.head.weight

    assert from_torch(Odd(), (torch.zeros(2, 4),)).metadata["module"] == {
        "other_names": {"head.weight": "first.0.weight", "head.offset": "offset"},
        "other_paths": {"block.0": "first.1", "again": "block", "again.0": "first.1"},
        "unread": {"offset": 16, "head.bias": 16, "counts": 24},
        "lists": ["listed"],
    }


def test_a_layer_with_several_paths_is_named_by_that_below_what_calls_it() -> None:
    activation = nn.Tanh()
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), activation) for _ in range(2)))
    graph = from_torch(blocks, (torch.zeros(2, 4),))
    assert [op.module for op in graph.ops if op.kind == "elementwise"] == ["0.1", "1.1"]


def test_in_place_ops_on_intermediates_become_plain_ones() -> None:
    graph = from_torch(InPlace(), (torch.zeros(5),))
    assert [op.target for op in graph.ops[1:]] == ["aten.add.Tensor", "aten.mul.Tensor", "aten.relu.default"]
    assert all(t.alias_of is None for t in graph.tensors)


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Any) -> Any:
        return self.norm(x)


def test_running_statistics_are_in_place_results_of_the_normalisation() -> None:
    graph = from_torch(Normalized(), (torch.zeros(3, 4),), training=True)
    norm = next(op for op in graph.ops if op.kind == "normalization")
    aliases = [graph.tensors[index].alias_of for index in norm.outputs]
    assert aliases[:3] == [None, None, None]
    assert [graph.tensors[index].name for index in aliases[3:] if index is not None] == [
        "norm.running_mean",
        "norm.running_var",
    ]
    assert alias_of(graph, "add:0") == "norm.num_batches_tracked"


def test_running_statistics_are_only_read_in_an_inference() -> None:
    model = Normalized().train()
    graph = from_torch(model, (torch.zeros(3, 4),))
    assert all(tensor.alias_of is None for tensor in graph.tensors)
    assert tensor_named(graph, "norm.running_mean").role == "parameter"
    assert model.norm.training, "capturing restores the module's own flags"


class Counter3(nn.Module):
    """Reads its buffer after computing the new value, so the new value cannot be written straight into it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        old = self.total.clone()
        self.total.copy_(self.total + x)
        return old * x


def test_a_buffer_is_overwritten_after_everything_that_reads_its_old_value() -> None:
    graph = from_torch(Counter3(), (torch.zeros(4),))
    written = next(op for op in graph.ops if any(graph.tensors[t].alias_of is not None for t in op.outputs))
    assert alias_of(graph, graph.tensors[written.outputs[0]].name) == "total"
    position = graph.ops.index(written)
    readers = [i for i, op in enumerate(graph.ops) if "total" in read(graph, op) and i != position]
    assert all(reader < position for reader in readers)
    assert set(readers) <= set(written.controls) | {graph.producer_of[t] for t in written.inputs}


def test_a_buffer_changed_through_a_view_is_copied_back() -> None:
    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: Any) -> Any:
            self.total.view(2, 2).add_(x)
            return x * 2

    graph = from_torch(Square(), (torch.zeros(2, 2),))
    copy = op_named(graph, "copy:total")
    assert copy.kind == "copy"
    assert alias_of(graph, "copy:total:0") == "total"
    assert before(graph, copy) == {"add"}


def test_constants_in_the_code_are_constants() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * torch.tensor([1.0, 2.0])

    graph = from_torch(Scaled(), (torch.zeros(2),))
    assert [t.role for t in graph.tensors if t.size_bytes == 8 and t.role != "activation"] == ["constant"]


def test_a_module_without_parameters_is_captured() -> None:
    graph = from_torch(nn.ReLU(), (torch.zeros(2, 2),))
    assert [op.kind for op in graph.ops] == ["input", "elementwise"]
    assert all(t.role == "activation" for t in graph.tensors)


def test_a_tensor_that_is_a_plain_attribute_is_read_like_a_buffer() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.ones(4)

        def forward(self, x: Any) -> Any:
            return x * self.scale

    graph = from_torch(Scaled(), (torch.zeros(4),))
    assert tensor_named(graph, "scale").role == "parameter"


def test_a_module_that_remembers_what_it_computed_is_left_as_it_was() -> None:
    class Remembering(Perceptron):
        def forward(self, x: Any) -> Any:
            self.last = super().forward(x)
            return self.last

    model = Remembering()
    before = dict(vars(model))
    for _ in range(2):
        from_torch(model, (torch.zeros(3, 8),), training=True)
        assert vars(model) == before


def test_arguments_in_containers_and_keywords_are_named_by_their_path() -> None:
    class Sum(nn.Module):
        def forward(self, pair: Any, scale: float, *, extra: Any = None) -> Any:
            return (pair[0] + pair[1]["b"]) * scale + extra

    x = torch.zeros(3)
    graph = from_torch(Sum(), ((x, {"b": torch.ones(3)}), 2.0), {"extra": torch.ones(3)})
    assert [op.name for op in graph.ops if op.kind == "input"] == ["input:pair.0", "input:pair.1.b", "input:extra"]


def test_one_tensor_passed_twice_is_two_inputs() -> None:
    class Difference(nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a - b

    x = torch.zeros(3)
    graph = from_torch(Difference(), (x, x))
    assert read(graph, op_named(graph, "sub")) == ["a", "b"]


def test_an_expanded_view_moves_only_what_it_repeats() -> None:
    class Broadcast(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.unsqueeze(1).expand(4, 100)

    graph = from_torch(Broadcast(), (torch.zeros(4),))
    expanded = tensor_named(graph, "expand:0")
    assert (expanded.shape, expanded.size_bytes) == ((4, 100), 4 * 4)


def test_results_of_a_split_share_their_source_and_getitem_is_no_op() -> None:
    class Halves(nn.Module):
        def forward(self, x: Any) -> Any:
            left, right = x.chunk(2)
            return left * right

    graph = from_torch(Halves(), (torch.zeros(6),))
    split = next(op for op in graph.ops if op.kind == "view")
    assert [graph.tensors[index].size_bytes for index in split.outputs] == [12, 12]
    assert {graph.tensors[index].alias_of for index in split.outputs} == {split.inputs[0]}
    assert Counter(op.kind for op in graph.ops) == {"input": 1, "view": 1, "elementwise": 1}


@dataclass
class Loss:
    loss: Any


def test_the_loss_is_the_models_own_or_the_callers_or_the_mean() -> None:
    class WithLoss(Perceptron):
        def forward(self, x: Any) -> Any:
            return Loss(super().forward(x).square().sum())

    own = from_torch(WithLoss(), (torch.zeros(3, 8),), training=True)
    given = from_torch(Perceptron(), (torch.zeros(3, 8),), training=True, loss=lambda output: output.exp().sum())
    assert any(op.target == "aten.pow.Tensor_Scalar" for op in own.ops)
    assert any(op.target == "aten.exp.default" for op in given.ops)


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


class Selecting(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[x > 0]


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.ReLU(), {"training": True}, "no output of the model depends on a parameter"),
        (Perceptron(), {"training": True, "loss": lambda output: output}, r"the loss is \(3, 4\)"),
        (Perceptron(), {"optimizer": "lion"}, "unknown optimizer 'lion'"),
        (nn.Linear(9, 2), {}, "PyTorch cannot trace Linear"),
        (Branching(), {}, "PyTorch cannot trace Branching"),
        (Selecting(), {}, "depends on values, which are not known"),
        ("no module", {}, "not from a str"),
    ],
)
def test_what_cannot_be_captured_is_refused_in_one_sentence(model: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        from_torch(model, (torch.zeros(3, 8),), **options)
    assert "\n" not in str(error.value)


class Stack(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), layer])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("layer", [Branching, Selecting])
@pytest.mark.parametrize("training", [False, True])
def test_what_depends_on_values_is_named_by_its_line(layer: Any, training: bool) -> None:
    line = inspect.getsourcelines(layer.forward)[1] + 1
    where = rf"not known before it runs.*\(in .*test_torch_module\.py:{line}\)$"
    with pytest.raises(InputError, match=where) as caught:
        from_torch(Stack(layer()), (torch.zeros(3, 8),), training=training)
    assert "\n" not in str(caught.value)


def test_an_exported_program_has_its_arguments(step: Graph) -> None:
    program = torch.export.export(Perceptron().train(), (torch.zeros(3, 8),))
    given = from_torch(program, (torch.zeros(3, 8),), training=True, name="perceptron")
    assert from_torch(program, training=True, name="perceptron").fingerprint == given.fingerprint


def test_one_tensor_stands_for_a_tuple_of_it() -> None:
    alone = from_torch(Perceptron(), torch.zeros(3, 8), name="p")
    assert alone.fingerprint == from_torch(Perceptron(), (torch.zeros(3, 8),), name="p").fingerprint


def test_arguments_that_are_no_tuple_are_refused_with_a_hint() -> None:
    with pytest.raises(InputError, match=r"args is a dict; .* arguments by name go into kwargs"):
        from_torch(Perceptron(), {"x": torch.zeros(3, 8)})


def test_wrong_arguments_are_refused_with_the_modules_name() -> None:
    with pytest.raises(InputError, match="Perceptron cannot be called with these arguments"):
        from_torch(Perceptron(), ())


def test_an_exported_program_with_open_dimensions_is_refused() -> None:
    open_batch = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(Perceptron(), (torch.zeros(3, 8),), dynamic_shapes=open_batch)
    with pytest.raises(InputError, match=r"leaves the dimensions .* open"):
        from_torch(program, (torch.zeros(3, 8),))


def test_without_pytorch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"placewright\[torch\]"):
        from_torch(Perceptron(), (torch.zeros(3, 8),))


def test_importing_the_importer_does_not_import_pytorch() -> None:
    code = "import sys, placewright.importers.torch.module; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_argument_that_is_called_as_something_of_the_module_has_a_name_of_its_own() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.ones(3))

        def forward(self, x: Any, mask: Any) -> Any:
            return x * self.mask * mask

    graph = from_torch(Masked(), (torch.ones(3), torch.ones(3)))
    assert [op.name for op in graph.ops if op.kind == "input"] == ["input:x", "input:mask_"]
    assert [tensor.name for tensor in graph.tensors if tensor.role == "parameter"] == ["mask"]


class Cache(nn.Module):
    """Writes one of 128 rows of a buffer of 4 x 128 x 16 numbers: 256 bytes. write: does so."""

    def __init__(self, write: Any) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 128, 16))
        self.write = write

    def forward(self, row: Any, place: Any) -> Any:
        self.write(self.rows, row, place)
        return self.rows.sum()


@pytest.mark.parametrize(
    ("write", "moved"),
    [
        # 256 bytes are read and written, and so is what is added to; a place has 8 bytes.
        (lambda rows, row, place: rows.index_copy_(1, place, row), 2 * 256 + 8),
        (lambda rows, row, place: rows.index_add_(1, place, row), 3 * 256 + 8),
        (lambda rows, row, place: rows.__setitem__((slice(None), place), row), 2 * 256 + 8),
        (lambda rows, row, place: rows[:, 3:4].copy_(row), 2 * 256),
    ],
)
def test_a_write_into_a_part_of_a_buffer_moves_that_part(write: Any, moved: int) -> None:
    graph = from_torch(Cache(write), (torch.zeros(4, 1, 16), torch.tensor([3])))
    (op,) = [
        op for op in graph.ops if op.kind in ("copy", "gather") and graph.tensors[op.outputs[0]].alias_of is not None
    ]
    assert count_bytes(op, [graph.tensors[i] for i in op.inputs], [graph.tensors[i] for i in op.outputs]) == moved


def test_what_waits_for_a_collective_hands_on_its_memory() -> None:
    dist = torch.distributed
    collectives = importlib.import_module("torch.distributed._functional_collectives")
    store = importlib.import_module("torch.testing._internal.distributed.fake_pg").FakeStore()

    class Gathered(nn.Module):
        def forward(self, x: Any) -> Any:
            return collectives.all_gather_tensor(x, 0, dist.group.WORLD).sum()

    dist.init_process_group("fake", rank=0, world_size=4, store=store)
    try:
        graph = from_torch(Gathered(), (torch.zeros(256, 16),))
    finally:
        dist.destroy_process_group()
    sizes = [(tensor.size_bytes, tensor.alias_of is None) for tensor in graph.tensors]
    assert sizes.count((4 * 256 * 16 * 4, True)) == 1
