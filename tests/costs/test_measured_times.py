"""Measured times override estimated ones; mistakes in their file are named by line."""

import os
from pathlib import Path

import pytest

import placewright
from placewright.costs import Costs, estimate_costs
from placewright.costs.measured import with_workspaces
from placewright.graph import Graph, Op, Tensor
from placewright.machines import load_machine
from placewright.support.errors import InputError

NAMES = ("layer.0.conv", "layer.0.relu", "layer.1.conv", "odd[0]")


def chain() -> Graph:
    """Four elementwise ops one after the other."""
    tensors = tuple(Tensor(name=f"t{i}", size_bytes=4, shape=(1,), dtype="float32") for i in range(5))
    ops = [
        Op(name=name, kind="elementwise", inputs=(i,), outputs=(i + 1,), attributes={"function": "relu"})
        for i, name in enumerate(NAMES)
    ]
    return Graph(name="chain", ops=(Op(name="x", kind="input", outputs=(0,)), *ops), tensors=tensors)


def costs(tmp_path: Path, text: str, specification: str = "cpu+2xk80") -> Costs:
    path = tmp_path / "times.csv"
    path.write_text(text, encoding="utf-8")
    return estimate_costs(chain(), load_machine(specification), path)


def test_a_name_as_the_csv_export_writes_it_is_found_and_so_is_the_name_itself(tmp_path: Path) -> None:
    graph = Graph(name="g", ops=tuple(Op(name=name, kind="other") for name in ("=a", "'b", "-c")), tensors=())
    path = tmp_path / "times.csv"
    path.write_text("op,device,time_ns\n'=a,*,1\n''b,*,2\n-c,*,3\n")
    assert estimate_costs(graph, load_machine("1xk80"), path).time_ns.ravel().tolist() == [1, 2, 3]


def test_a_row_sets_one_op_on_one_device(tmp_path: Path) -> None:
    measured = costs(tmp_path, "op,device,time_ns\nlayer.0.conv,gpu1,123\n")
    # 8 bytes take a nanosecond; 8 us to launch on the CPU, 1.5 us between kernels on a GPU
    assert measured.time_ns[1].tolist() == [8001, 1501, 123]
    assert measured.measured == ("layer.0.conv",)


def test_patterns_kinds_and_stars_match_many(tmp_path: Path) -> None:
    measured = costs(tmp_path, "device, op, time_us\n*,layer.*,2\nk80,*.conv,0.5\n")
    assert measured.time_ns[1:].tolist() == [[2000, 500, 500], [2000, 2000, 2000], [2000, 500, 500], [8001, 1501, 1501]]
    assert measured.measured == NAMES[:3]


def test_the_last_row_that_matches_wins(tmp_path: Path) -> None:
    measured = costs(tmp_path, "op,device,time_ns\nlayer.0.conv,*,1\n\n*,*,7\nlayer.0.conv,cpu0,9\n")
    assert measured.time_ns[1].tolist() == [9, 7, 7]
    assert measured.time_ns[0].tolist() == [7, 7, 7]


def test_a_name_with_brackets_is_a_name_before_it_is_a_pattern(tmp_path: Path) -> None:
    assert costs(tmp_path, "op,device,time_ns\nodd[0],*,3\n").measured == ("odd[0]",)


def test_measured_times_stand_in_for_rates_a_device_does_not_have(tmp_path: Path) -> None:
    assert costs(tmp_path, "op,device,time_ns\n*,ideal,5\n", "2xideal").time_ns.tolist() == [[5, 5]] * 5
    with pytest.raises(InputError, match=r"op 'layer\.0\.conv' states no time"):
        costs(tmp_path, "op,device,time_ns\nodd*,*,5\n", "2xideal")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "csv:1: columns must be op, device, and time_ns or time_us, with or without workspace_bytes$"),
        ("op,device\n", "csv:1: columns must be"),
        ("op,device,time_ns,time_us\n", "csv:1: columns must be"),
        ("op,device,time_ns,colour\n", "csv:1: columns must be"),
        ("op,device,time_ns\nlayer.0.conv,*,1\nnone,*,1\n", "csv:3: no op matches 'none'"),
        ("op,device,time_ns\nnone*,*,1\n", r"csv:2: no op matches 'none\*'"),
        ("op,device,time_ns\n*,tpu,1\n", r"csv:2: no device is named or of kind 'tpu'; there are cpu0 \(cpu\)"),
        ("op,device,time_ns\n*,*,nan\n", "csv:2: time_ns is nan"),
        ("op,device,time_ns\n*,*,inf\n", "csv:2: time_ns is inf"),
        ("op,device,time_ns\n*,*,-1\n", "csv:2: time_ns is -1"),
        ("op,device,time_us\n*,*,1e300\n", "csv:2: time_us is 1e300"),
        ("op,device,time_us\n*,*,fast\n", "csv:2: time_us is 'fast', which is not a number"),
        ("op,device,time_us\n*,*\n", "csv:2: 2 values for 3 columns"),
        ("op,op,device,time_ns\n", "csv:1: columns must be"),
        ("op,device,time_ns,workspace_bytes\n*,*,1,-1\n", "csv:2: workspace_bytes is '-1'"),
    ],
)
def test_every_mistake_names_file_and_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        costs(tmp_path, text)


def test_a_missing_file_and_a_binary_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read '.*none\.csv'"):
        estimate_costs(chain(), load_machine("k80"), tmp_path / "none.csv")
    path = tmp_path / "binary.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"binary\.csv: not a text file"):
        estimate_costs(chain(), load_machine("k80"), path)


def test_a_value_too_long_for_a_table_is_named_by_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"times.csv:2: field larger than field limit"):
        costs(tmp_path, "op,device,time_ns\n" + "x" * 140_000 + ",cpu0,5\n")


def test_a_pipe_is_no_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"cannot read '.*pipe': it exists and is not a regular file"):
        estimate_costs(chain(), load_machine("cpu"), tmp_path / "pipe")


def test_stated_workspaces_are_those_of_the_graph_and_the_largest_counts(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text(
        "op,device,time_ns,workspace_bytes\nlayer.*,cpu,1,10\nlayer.0.*,k80,1,30\nlayer.0.conv,*,1,20\nodd*,*,1,\n"
    )
    graph = with_workspaces(chain(), path)
    assert [op.workspace_bytes for op in graph.ops] == [0, 30, 30, 10, 0]
    assert with_workspaces(chain(), None) == chain()


def test_a_plan_with_measured_workspaces_is_right_for_the_graph_and_the_file(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("op,device,time_ns,workspace_bytes\n*,*,1000,100\n")
    plan = placewright.plan(chain(), "1xk80", measured=path)
    # x and its successor, 4 bytes each, and what the op needs for itself
    assert plan.metrics.peak_memory_bytes == 108
    assert plan.check(chain()).facts.correct
    path.write_text("op,device,time_ns,workspace_bytes\n*,*,1000,99\n")
    with pytest.raises(InputError, match="is not a plan for 'chain'"):
        plan.check(chain())
