"""Op times: measured by sort, kept between models, and put together for a graph."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch_modules import calls, captured

import placewright
from placewright.costs.measured import MeasuredOp
from placewright.execution.devices import available_cores, cores_of
from placewright.execution.op_library import OpSort, read_library, write_library
from placewright.execution.profile_summary import Handover
from placewright.execution.pytorch.handover import link_of, measure_handovers
from placewright.execution.pytorch.op_sorts import sorts_of
from placewright.execution.pytorch.profile import with_views
from placewright.graph import Graph, Op, Tensor
from placewright.machines import load_machine
from placewright.machines.devices_file import write_machine_file
from placewright.support.errors import InputError

TWO = "cpu:0,cpu:1"
CPU_KIND = "cpu-1-core"
needs_two_cores = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")


def sorts(model: nn.Module, *args: torch.Tensor) -> dict[str, OpSort]:
    with placewright.compile(model, args, devices="cpu:0") as compiled:
        program = captured(compiled, *args)[0].program
    return {op.name: sort for op, sort in zip(program.graph.ops, sorts_of(program, CPU_KIND, 1), strict=True)}


def test_ops_of_one_sort_have_their_shapes_strides_and_settings_in_common() -> None:
    class Sums(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x + y, y + x, x + y.t(), x.softmax(0), x.softmax(1), x + y.double()

    found = sorts(Sums(), torch.ones(3, 3), torch.ones(3, 3))
    assert found["add"] == found["add_1"]
    assert found["add"] != found["add_2"], "a transposed input is read in another order"
    assert found["_softmax"] != found["_softmax_1"]
    assert found["add"] != found["add_3"]
    assert found["add_2"].arguments == "float32[3,3], float32[3,3]/[1,3]"
    assert sorts(Sums(), torch.ones(3, 3), torch.ones(3, 3)) == found, "whatever the process, the sorts are the same"


def test_a_library_is_read_as_it_was_written(tmp_path: Path) -> None:
    library = {
        OpSort("aten.add.Tensor", 'float32[2,3]/[1,2], 1; "odd', "cpu-1-core", 1, "=host, torch 2"): MeasuredOp(5, 0),
        OpSort("aten.add.Tensor", "", "cpu-1-core", 2, "=host, torch 2"): MeasuredOp(7, 64),
    }
    path = tmp_path / "library.csv"
    write_library(path, library)
    assert read_library(path) == library
    assert read_library(tmp_path / "absent.csv") == {}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            "op,time_ns\n",
            ":1: columns must be op, arguments, device, devices_busy, host, time_ns, workspace_bytes$",
        ),
        ("op,arguments,device,devices_busy,host,time_ns,workspace_bytes\na,b,c,1,h,x,0\n", ":2: time_ns is 'x'"),
        ("op,arguments,device,devices_busy,host,time_ns,workspace_bytes\na,b\n", ":2: 2 values for 7 columns"),
    ],
)
def test_a_library_that_is_none_is_refused_by_line(content: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "library.csv"
    path.write_text(content)
    with pytest.raises(InputError, match="library.csv" + complaint):
        read_library(path)


def test_an_op_pays_for_the_views_that_are_made_for_it() -> None:
    def tensor(name: str, alias_of: int | None = None) -> Tensor:
        return Tensor(name=name, size_bytes=4, role="activation", alias_of=alias_of)

    def op(name: str, kind: str, inputs: tuple[int, ...], output: int) -> Op:
        return Op(name=name, kind=kind, inputs=inputs, outputs=(output,))

    # x -> first -> v -> w -> second and third; w is a view of the view v.
    graph = Graph(
        name="views",
        tensors=(tensor("x"), tensor("a"), tensor("v", 1), tensor("w", 2), tensor("b"), tensor("c")),
        ops=(
            op("x", "input", (), 0),
            op("first", "elementwise", (0,), 1),
            op("v", "view", (1,), 2),
            op("w", "view", (2,), 3),
            op("second", "elementwise", (3,), 4),
            op("third", "elementwise", (3,), 5),
        ),
    )
    times = with_views(graph, [MeasuredOp(time, 0) for time in (1, 10, 2, 3, 20, 30)], 100)
    # Each with the gap; the second op with both views and their gaps: 20 + 2 + 3 + 3 * 100.
    assert {name: op.time_ns for name, op in times.items()} == {"x": 101, "first": 110, "second": 325, "third": 130}


def test_a_link_is_as_slow_as_its_handovers() -> None:
    # Waking takes 20 us and the first op is 10 us slower; beyond that, a megabyte takes 100 us: 10 GB/s.
    found = [
        Handover(size_bytes=1000, latency_ns=20_000, read_ns=12_000, own_read_ns=2_000),
        Handover(size_bytes=1_000_000, latency_ns=20_000, read_ns=150_000, own_read_ns=40_000),
        Handover(size_bytes=2_000_000, latency_ns=20_000, read_ns=290_000, own_read_ns=80_000),
    ]
    link = link_of(found)
    assert link.latency_ns == 30_000
    assert link.bandwidth_bytes_per_s == pytest.approx(10e9, rel=1e-9)
    same = [Handover(size_bytes=size, latency_ns=5_000, read_ns=10, own_read_ns=10) for size in (10, 20)]
    assert link_of(same).bandwidth_bytes_per_s is None


@needs_two_cores
def test_handovers_between_two_cores_take_time() -> None:
    (found,) = measure_handovers(cores_of(2), sizes=(1024,))
    assert found.size_bytes == 1024
    assert min(found.latency_ns, found.read_ns, found.own_read_ns) > 0


@needs_two_cores
def test_a_second_model_times_only_what_is_new(tmp_path: Path) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.second(self.first(x)))

    x = torch.ones(4, 8)
    first = placewright.profile(nn.Linear(8, 8), x, devices=TWO, folder=tmp_path).facts
    # The input, the transposed weight, the product and what passes between ops, each alone and with both devices busy.
    assert (first.num_timed, first.num_known) == (8, 0)
    before = read_library(tmp_path / "op-library.csv")
    second = placewright.profile(Two(), x, devices=TWO, folder=tmp_path).facts
    assert (second.num_timed, second.num_known) == (2, 8), "tanh is new"
    after = read_library(tmp_path / "op-library.csv")
    assert {sort: after[sort] for sort in before} == before
    assert {sort.op for sort in after.keys() - before.keys()} == {"aten.tanh.default"}
    again = placewright.profile(Two(), x, devices=TWO, folder=tmp_path).facts
    assert (again.num_timed, again.num_known) == (0, 10)
    assert [(kind.kind, kind.num_ops) for kind in sorted(again.kinds, key=lambda kind: kind.kind)] == [
        ("elementwise", 1),
        ("matmul", 2),
    ]


@needs_two_cores
def test_what_profile_writes_plan_takes(tmp_path: Path) -> None:
    model, args, kwargs = calls()["branches"]()
    reference = copy.deepcopy(model)
    found = placewright.profile(model, args, kwargs=kwargs, devices=TWO, folder=tmp_path, training=True).facts
    assert all(Path(path).is_file() for path in found.files)
    graph, times = tmp_path / "Branches-training.json.gz", tmp_path / "Branches-training.csv"
    plan = placewright.plan(graph, tmp_path / "devices.toml", measured=times, evaluations=10)
    assert plan.time_sources is not None
    assert plan.time_sources.measured == len(plan.ops)
    assert [device.name for device in plan.machine.devices] == ["cpu:0", "cpu:1"]
    for name, value in reference.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)
    with placewright.compile(
        model, args, kwargs=kwargs, devices=TWO, training=True, plan=plan, profile=tmp_path
    ) as run:
        run(*args, **kwargs)


def test_measuring_the_devices_draws_no_random_numbers_of_the_module(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    before = torch.get_rng_state()
    with placewright.compile(model, torch.ones(2, 4), devices="cpu:0", profile=tmp_path):
        assert list(tmp_path.glob("devices*.toml"))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_machine_file_reads_as_the_machine(tmp_path: Path) -> None:
    machine = load_machine("cpu+2xk80")
    path = tmp_path / "devices.toml"
    write_machine_file(machine, path, "Three devices.")
    read = load_machine(path)
    assert (read.name, read.transfer_model, read.launch) == (machine.name, machine.transfer_model, machine.launch)
    assert [(d.name, d.kind, d.memory_bytes) for d in read.devices] == [
        (d.name, d.kind, d.memory_bytes) for d in machine.devices
    ]
    for mine, theirs in zip(read.devices, machine.devices, strict=True):
        assert mine.peak_flops_per_s == pytest.approx(theirs.peak_flops_per_s, rel=1e-3)
        assert mine.launch_overhead_ns == theirs.launch_overhead_ns
    assert [link.latency_ns for link in read.links[0][1:]] == [link.latency_ns for link in machine.links[0][1:]]
