"""Graphs of HLO text: a scheduled module's order, fusions, loops, views, updates in place, bad files."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright.costs.estimate import compute_dtype
from placewright.costs.flops import count_flops
from placewright.costs.traffic import count_bytes
from placewright.graph import Graph, Op
from placewright.importers import load_graph
from placewright.importers.hlo.program import parse_hlo
from placewright.support.errors import InputError

SEEDS = Path(__file__).parents[1] / "fuzz" / "seeds"


def module(entry: str, computations: str = "", header: str = "") -> Graph:
    """The graph of a module with this ENTRY computation."""
    text = f"HloModule m, is_scheduled=true{header}\n{computations}\nENTRY %main {{\n{entry}\n}}\n"
    return parse_hlo(text.encode(), "m.hlo")


def op(graph: Graph, name: str) -> Op:
    return next(each for each in graph.ops if each.name == name)


def flops(graph: Graph, name: str) -> int:
    found = op(graph, name)
    return count_flops(found, [graph.tensors[t] for t in found.inputs], [graph.tensors[t] for t in found.outputs])


def moved(graph: Graph, name: str) -> int:
    found = op(graph, name)
    return count_bytes(found, [graph.tensors[t] for t in found.inputs], [graph.tensors[t] for t in found.outputs])


@pytest.fixture(scope="module")
def loop() -> Graph:
    return load_graph(SEEDS / "loop.hlo")


def test_a_module_is_recognised_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_bytes((SEEDS / "loop.hlo").read_bytes())
    graph = load_graph(path)
    assert graph.metadata["format"] == "hlo"
    assert graph.metadata["scheduled"] is True


def test_a_fusion_is_one_op_with_the_work_of_its_body_and_the_bytes_of_its_boundary(loop: Graph) -> None:
    # The product 2 * 2 * 4 * 3 and eight multiplications by a constant; w, x and the result of 24, 48 and 32 bytes.
    assert op(loop, "f").kind == "matmul"
    assert flops(loop, "f") == 48 + 8
    assert moved(loop, "f") == 24 + 48 + 32
    assert op(loop, "f").module == "a"


def test_a_fusion_computes_at_the_rate_of_what_costs_most_in_it() -> None:
    scaled = """%scaled (s: f32[64], a: bf16[64,64], w: s8[64,64]) -> f32[64,64] {
      %s = f32[64]{0} parameter(0)
      %a = bf16[64,64]{1,0} parameter(1)
      %w = s8[64,64]{1,0} parameter(2)
      %b = bf16[64,64]{1,0} convert(%w)
      %d = f32[64,64]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      %r = f32[64,64]{1,0} broadcast(%s), dimensions={1}
      ROOT %m = f32[64,64]{1,0} add(%d, %r)
    }"""
    graph = module(
        """%s = f32[64]{0} parameter(0)
      %a = bf16[64,64]{1,0} parameter(1)
      %w = s8[64,64]{1,0} parameter(2)
      ROOT %f = f32[64,64]{1,0} fusion(%s, %a, %w), kind=kOutput, calls=%scaled""",
        scaled,
    )
    fusion = op(graph, "f")
    inputs = [graph.tensors[tensor] for tensor in fusion.inputs]
    assert compute_dtype(fusion, inputs, [graph.tensors[tensor] for tensor in fusion.outputs]) == "bfloat16"


def test_a_loop_is_one_op_with_the_work_of_all_rounds(loop: Graph) -> None:
    # Five rounds of a hyperbolic tangent of weight 10 for 8 elements, and of the counter.
    assert op(loop, "loop").attributes["trips"] == 5
    assert flops(loop, "loop") == 5 * (80 + 1)
    # The state is written over what the loop began with, since nothing else reads that.
    state = loop.tensors[op(loop, "loop").outputs[1]]
    assert state.alias_of is not None
    assert loop.tensors[state.alias_of].name == "f"


def test_what_xla_knows_of_a_loop_counts() -> None:
    text = (SEEDS / "loop.hlo").read_text()
    known = 'body=%body, backend_config={"known_trip_count":{"n":"9"}}'
    graph = parse_hlo(text.replace("body=%body", known).encode(), "m")
    assert op(graph, "loop").attributes["trips"] == 9


SCAN_STEP = """
%step (x: f32[4,4], w: f32[4,4], state: f32[4,4]) -> (f32[4], f32[4,4], f32[4,4]) {
  %x = f32[4,4]{1,0} parameter(0)
  %w = f32[4,4]{1,0} parameter(1)
  %state = f32[4,4]{1,0} parameter(2)
  %next = f32[4,4]{1,0} dot(%state, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %row = f32[4]{0} slice(%next), slice={[0:1], [0:4]}
  ROOT %t = (f32[4]{0}, f32[4,4]{1,0}, f32[4,4]{1,0}) tuple(%row, %w, %next)
}"""
SCAN = """%xs = f32[4,50,4]{2,1,0} parameter(0)
%w = f32[4,4]{1,0} parameter(1)
%begin = f32[4,4]{1,0} tanh(%w)
ROOT %r = (f32[50,4]{1,0}, f32[4,4]{1,0}, f32[4,4]{1,0}) scan(%xs, %w, %begin), ATTRIBUTES, to_apply=%step"""


def test_a_scan_is_one_op_with_the_work_of_all_steps() -> None:
    graph = module(SCAN.replace("ATTRIBUTES", "dimensions={1}, num_carries=2, is_reverse=true"), SCAN_STEP)
    assert op(graph, "r").kind == "control_flow"
    assert op(graph, "r").attributes["trips"] == 50
    assert flops(graph, "r") == 50 * 2 * 4 * 4 * 4
    rows, state = (graph.tensors[tensor] for tensor in op(graph, "r").outputs)
    assert rows.shape == (50, 4)
    # Values that it carries along unchanged are none of its results; those that change overwrite what it began with.
    assert state.alias_of is not None
    assert graph.tensors[state.alias_of].name == "begin"


def test_a_scan_that_carries_nothing_or_is_stacked_from_nothing_runs_as_often_as_its_arrays_are_long() -> None:
    body = "%b (x: f32[4]) -> f32[4] {\n%x = f32[4]{0} parameter(0)\nROOT %y = f32[4]{0} exponential(%x)\n}"
    mapped = module(
        "%xs = f32[9,4]{1,0} parameter(0)\nROOT %r = f32[9,4]{1,0} scan(%xs), dimensions={0}, to_apply=%b", body
    )
    assert flops(mapped, "r") == 9 * 4 * 4
    step = "%s (c: f32[4]) -> (f32[4], f32[4]) {\n%c = f32[4]{0} parameter(0)\n%e = f32[4]{0} exponential(%c)\n"
    unfolded = module(
        "%c = f32[4]{0} parameter(0)\n"
        "ROOT %r = (f32[7,4]{1,0}, f32[4]{0}) scan(%c), dimensions={0}, num_carries=1, to_apply=%s",
        f"{step}ROOT %t = (f32[4]{{0}}, f32[4]{{0}}) tuple(%e, %e)\n}}",
    )
    assert flops(unfolded, "r") == 7 * 4 * 4


@pytest.mark.parametrize(
    "attributes",
    [
        "num_carries=2",
        "dimensions={3}, num_carries=2",
        "dimensions={1}, num_carries=4",
        "dimensions={1}, num_carries=3",
    ],
)
def test_a_scan_whose_arrays_do_not_fit_is_refused_by_a_true_sentence(attributes: str) -> None:
    with pytest.raises(InputError, match="line 15: the attributes of 'r' are not those of scan"):
        module(SCAN.replace("ATTRIBUTES", attributes), SCAN_STEP)


def test_an_alias_of_the_module_is_a_parameter_updated_in_place(loop: Graph) -> None:
    weight = next(index for index, tensor in enumerate(loop.tensors) if tensor.name == "p['w']")
    assert loop.tensors[weight].role == "parameter"
    written = loop.tensors[op(loop, "cc").outputs[0]]
    assert (written.alias_of, written.is_output) == (weight, True)
    # The fusion reads the old value, so it comes before.
    assert [loop.ops[control].name for control in op(loop, "cc").controls] == ["f"]


def test_what_runs_beside_other_work_is_one_op(loop: Graph) -> None:
    assert op(loop, "start").kind == "copy"
    reader = op(loop, "s")
    assert [loop.tensors[index].name for index in reader.inputs] == ["start"]


def test_control_predecessors_are_control_dependencies() -> None:
    graph = module("""
      %x = f32[4]{0} parameter(0)
      %a = f32[4]{0} negate(%x)
      %b = f32[4]{0} abs(%x), control-predecessors={%a}
      ROOT %t = (f32[4]{0}, f32[4]{0}) tuple(%a, %b)""")
    assert [graph.ops[control].name for control in op(graph, "b").controls] == ["a"]


def behind(graph: Graph, name: str) -> set[str]:
    """The ops that have ended when this one begins."""
    found: set[int] = set()
    waiting = [next(index for index, each in enumerate(graph.ops) if each.name == name)]
    while waiting:
        each = graph.ops[waiting.pop()]
        made = {graph.producer_of[tensor] for tensor in each.inputs} - {-1, None}
        waiting += ({*made, *each.controls}) - found
        found |= {*made, *each.controls}
    return {graph.ops[index].name for index in found}


@pytest.mark.parametrize("first", ["done", "part", "both"])
@pytest.mark.parametrize("second", ["bitcast(%y)", "copy-done(%start2)", "get-tuple-element(%pair), index=1"])
def test_control_predecessors_hold_where_either_side_is_no_op_of_its_own(first: str, second: str) -> None:
    graph = module(f"""
      %x = f32[4]{{0}} parameter(0)
      %y = f32[4]{{0}} parameter(1)
      %start2 = (f32[4]{{0}}, f32[4]{{0}}, u32[]) copy-start(%y)
      %start = (f32[4]{{0}}, f32[4]{{0}}, u32[]) copy-start(%x)
      %done = f32[4]{{0}} copy-done(%start)
      %both = (f32[4]{{0}}, f32[4]{{0}}) tuple(%done, %y)
      %part = f32[4]{{0}} get-tuple-element(%both), index=0
      %pair = (f32[4]{{0}}, f32[4]{{0}}) tuple(%x, %y)
      %a = f32[4]{{0}} abs(%y), control-predecessors={{%{first}}}
      %v = f32[4]{{0}} {second}, control-predecessors={{%a}}
      %n = f32[4]{{0}} negate(%v)
      ROOT %t = (f32[4]{{0}}, f32[4]{{0}}, f32[4]{{0}}) tuple(%a, %n, %done)""")
    assert "start" in behind(graph, "a")
    assert "a" in behind(graph, "n")


def test_tuples_and_bitcasts_are_no_work() -> None:
    graph = module(
        """
      %x = f32[2,3]{1,0} parameter(0)
      %flat = f32[6]{0} bitcast(%x)
      %t = ((f32[6]{0}, f32[2,3]{1,0}), f32[2,3]{1,0}) tuple(%u, %x)
      %first = (f32[6]{0}, f32[2,3]{1,0}) get-tuple-element(%t), index=0
      %g = f32[6]{0} get-tuple-element(%first), index=0
      ROOT %n = f32[6]{0} negate(%g)""".replace("%t =", "%u = (f32[6]{0}, f32[2,3]{1,0}) tuple(%flat, %x)\n%t =")
    )
    assert [(each.name, each.kind) for each in graph.ops] == [
        ("input:x", "input"),
        ("flat", "view"),
        ("n", "elementwise"),
    ]


def test_after_scheduling_transposes_and_broadcasts_move_data_and_before_it_they_are_views() -> None:
    entry = """
      %x = f32[2,3]{1,0} parameter(0)
      %t = f32[3,2]{1,0} transpose(%x), dimensions={1,0}
      ROOT %b = f32[5,3,2]{2,1,0} broadcast(%t), dimensions={1,2}"""
    assert [each.kind for each in module(entry).ops] == ["input", "copy", "copy"]
    unscheduled = parse_hlo(f"HloModule m\nENTRY %main {{\n{entry}\n}}\n".encode(), "m")
    # Returned values have to be written out all the same.
    assert [each.kind for each in unscheduled.ops] == ["input", "view", "view", "copy"]
    assert unscheduled.tensors[op(unscheduled, "b").outputs[0]].size_bytes == 24


def test_a_fusion_that_takes_a_slice_or_writes_one_moves_only_that() -> None:
    computations = """
    %slicing (p: f32[100,8], i: s32[]) -> f32[1,8] {
      %p = f32[100,8]{1,0} parameter(0)
      %i = s32[] parameter(1)
      %z = s32[] constant(0)
      ROOT %d = f32[1,8]{1,0} dynamic-slice(%p, %i, %z), dynamic_slice_sizes={1,8}
    }
    %writing (q: f32[100,8], r: f32[1,8], j: s32[]) -> f32[100,8] {
      %q = f32[100,8]{1,0} parameter(0)
      %r = f32[1,8]{1,0} parameter(1)
      %j = s32[] parameter(2)
      %y = s32[] constant(0)
      ROOT %u = f32[100,8]{1,0} dynamic-update-slice(%q, %r, %j, %y)
    }"""
    graph = module(
        """
      %a = f32[100,8]{1,0} parameter(0)
      %k = s32[] parameter(1)
      %s = f32[1,8]{1,0} fusion(%a, %k), kind=kLoop, calls=%slicing
      ROOT %w = f32[100,8]{1,0} fusion(%a, %s, %k), kind=kLoop, calls=%writing""",
        computations,
    )
    # 32 bytes of the slice are read and written, and the index of 4 is read.
    assert moved(graph, "s") == 32 + 4 + 32
    assert moved(graph, "w") == 32 + 4 + 32


def test_a_ragged_product_multiplies_every_row_by_the_matrix_of_its_group() -> None:
    graph = module(
        "%x = f32[32,16]{1,0} parameter(0)\n%w = f32[4,16,8]{2,1,0} parameter(1)\n%g = s32[4]{0} parameter(2)\n"
        "ROOT %d = f32[32,8]{1,0} ragged-dot(%x, %w, %g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}"
    )
    assert flops(graph, "d") == 2 * 32 * 16 * 8


@pytest.mark.parametrize("moved", ["S", "calls"])
def test_what_lies_in_the_memory_of_the_host_takes_none_of_the_devices(moved: str) -> None:
    # As XLA's offloader leaves it, and as JAX lowers it.
    if moved == "S":
        there = "%h = f32[8]{0:S(5)} copy(%y)\n%b = f32[8]{0} copy(%h)\n"
    else:
        there = "".join(
            f'%{name} = f32[8]{{0}} custom-call(%{read}), custom_call_target="MoveTo{where}"\n'
            for name, read, where in (("h", "y", "Host"), ("b", "h", "Device"))
        )
    graph = module(
        "%x = f32[8]{0} parameter(0)\n%y = f32[8]{0} negate(%x)\n" + there + "ROOT %r = f32[8]{0} negate(%b)"
    )
    sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    assert (sizes["y"], sizes["h"], sizes["b"]) == (32, 0, 32)
    assert graph.metadata["warnings"] == ["2 copies to the host's memory or back: the time of their link is not known"]


def test_products_of_libraries_are_products() -> None:
    dims = '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}'
    called = 'custom_call_target="__cublas$gemm"'
    graph = module(f"""
      %x = bf16[8,16]{{1,0}} parameter(0)
      %w = bf16[16,4]{{1,0}} parameter(1)
      %g = (bf16[8,4]{{1,0}}, s8[64]{{0}}) custom-call(%x, %w), {called}, backend_config={{{dims}}}
      ROOT %r = bf16[8,4]{{1,0}} get-tuple-element(%g), index=0""")
    assert op(graph, "g").kind == "matmul"
    assert flops(graph, "g") == 2 * 8 * 4 * 16


@pytest.mark.parametrize("target", ["__cublas$lt$matmul", "__cudnn$convBackwardFilter", "__onednn$matmul"])
@pytest.mark.parametrize("scratch", ["s8[4096]{0}", "u8[0]{0}"])
def test_the_scratch_of_a_library_is_workspace(target: str, scratch: str) -> None:
    graph = module(f"""
      %x = f32[8,4]{{1,0}} parameter(0)
      %g = (f32[8,4]{{1,0}}, {scratch}) custom-call(%x), custom_call_target="{target}"
      ROOT %r = f32[8,4]{{1,0}} get-tuple-element(%g), index=0""")
    assert op(graph, "g").workspace_bytes == (4096 if "4096" in scratch else 0)
    assert [graph.tensors[tensor].shape for tensor in op(graph, "g").outputs] == [(8, 4)]
    assert moved(graph, "g") == 2 * 8 * 4 * 4


def test_a_last_result_that_is_no_scratch_is_a_result() -> None:
    graph = module("""
      %x = f32[8,4]{1,0} parameter(0)
      ROOT %g = (f32[8,4]{1,0}, s8[16]{0}) custom-call(%x), custom_call_target="mine", x={}""")
    assert len(op(graph, "g").outputs) == 2


def test_a_call_nobody_knows_is_kept_with_a_warning(loop: Graph) -> None:
    assert op(loop, "cc").kind == "other"
    assert loop.metadata["warnings"] == ["1 of mine, whose meaning is not known"]


def test_source_lines_come_from_either_table() -> None:
    tables = """
FileNames
1 "/home/me/net.py"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
"""
    graph = module(
        """
      %x = f32[4]{0} parameter(0)
      %a = f32[4]{0} negate(%x), metadata={op_name="jit(f)/jvp(Net)/dense/neg" stack_frame_id=1}
      ROOT %b = f32[4]{0} abs(%a), metadata={op_name="abs" source_file="/x/other.py" source_line=3}""",
        tables,
    )
    assert (op(graph, "a").module, op(graph, "a").source) == ("Net.dense", "net.py:7")
    assert op(graph, "b").source == "other.py:3"


def test_float8_and_int4_have_their_sizes() -> None:
    graph = module("""
      %x = f8e4m3b11fnuz[5]{0} parameter(0)
      %y = s4[5]{0} parameter(1)
      ROOT %t = (f8e4m3b11fnuz[5]{0}, s4[5]{0}) tuple(%x, %y)""")
    assert [tensor.size_bytes for tensor in graph.tensors] == [5, 3]


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("%x = q7[4]{0} parameter(0)", "'m.hlo', line 4: the element type 'q7' is not known"),
        ("%x = f32[4]{0} negate(%y)", "'m.hlo', line 4: 'x' reads 'y', which nothing before it makes"),
        ("%x = f32[4]{0} parameter(0)\n%x = f32[4]{0} abs(%x)", "line 5: two instructions are named 'x'"),
        ("%x = f32[4]{0} parameter(1)", "the parameters of 'main' are not numbered from 0"),
        ("%x = f32[4]{0} call(), to_apply=%none", "line 4: the computation 'none' is called and does not exist"),
        ("%x = f32[4]{0} parameter(0\n", "line 4: the operands of 'x' do not end"),
        ("%x f32[4]", "line 4: '%x f32[4]' is no instruction"),
        ("%x = f32[4]{0} parameter(0)\n%y = f32[] dot(%x, %x), lhs_contracting_dims={3}", "does not fit its operands"),
        ("%x = f32[99999999999,99999999999]{1,0} parameter(0)", "has an impossible size"),
        ("%x = f32[4]{0} parameter(0)\nROOT %y = f32[4]{0} get-tuple-element(%x), index=1", "has no such part"),
        ("%x = f32[4]{0} parameter(0)\n%y = f32[2]{0} convolution(%x, %x)", "the attributes of 'y' are not those of"),
    ],
)
def test_a_bad_module_is_one_sentence_with_its_line(entry: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        module(entry)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_computations_that_call_each_other_in_a_ring_are_refused() -> None:
    ring = """
    %a (p: f32[]) -> f32[] {
      %p = f32[] parameter(0)
      ROOT %c = f32[] call(%p), to_apply=%b
    }
    %b (q: f32[]) -> f32[] {
      %q = f32[] parameter(0)
      ROOT %d = f32[] call(%q), to_apply=%a
    }"""
    with pytest.raises(InputError, match="calls itself, or is nested too deeply"):
        module("%x = f32[] parameter(0)\nROOT %y = f32[] call(%x), to_apply=%a", ring)


def test_tuples_that_double_without_end_are_refused() -> None:
    doubling = "\n".join(f"%x{number} = f32[] tuple(%x{number - 1}, %x{number - 1})" for number in range(1, 60))
    with pytest.raises(InputError, match="is a tuple of more than 50,000 arrays"):
        module(f"%x0 = f32[] parameter(0)\n{doubling}\nROOT %r = f32[] negate(%x59)")


@pytest.mark.parametrize("text", ["HloModule m\n", "module @m {}", "HloModule m\n%a {\n", "HloModule m\njunk"])
def test_what_is_no_whole_module_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"m\.hlo"):
        parse_hlo(text.encode(), "m.hlo")
