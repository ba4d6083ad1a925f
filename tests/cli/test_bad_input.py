"""Bad input: exit code 2, one sentence on stderr that names the thing, nothing written."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Placewright

PLAN = ("plan", "@", "-d", "2xp100")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("plan",), "Missing argument 'MODEL'"),
        (("plan", "@"), "Missing option '--devices'"),
        (("plann", "@"), "No such command 'plann'. Did you mean 'plan'"),
        ((*PLAN, "--sede", "1"), "No such option: --sede"),
        (("plan", "nowhere.onnx", "-d", "2xp100"), "cannot read 'nowhere.onnx': No such file or directory"),
        (("plan", "example:bert-base-trian", "-d", "2xp100"), "did you mean 'bert-base-train'?"),
        (("plan", "@", "-d", "2xh1000"), "unknown device 'h1000'; did you mean h100?"),
        (("plan", "@", "-d", "nowhere.toml"), "cannot read 'nowhere.toml'"),
        ((*PLAN, "--objective", "step-tim"), "unknown objective 'step-tim'; did you mean step-time?"),
        ((*PLAN, "--solver", "atuo"), "there is no solver 'atuo'; did you mean auto?"),
        ((*PLAN, "--memory-limit", "10Gb"), "size '10Gb' is in bits"),
        ((*PLAN, "--memory-limit=-1"), "size '-1' is not understood"),
        ((*PLAN, "--memory-limit", "nan"), "size 'nan' is not understood"),
        ((*PLAN, "--keep", "nothing*"), "keep names 'nothing*', which matches no op of 'towers'"),
        ((*PLAN, "--keep", ""), "keep is ['']; it must be a list of patterns"),
        ((*PLAN, "--time-limit", "3"), "duration '3' has no unit"),
        ((*PLAN, "--time-limit", "0s"), "a time limit of 0.0 s is not a positive number"),
        ((*PLAN, "--evaluations", "0"), "evaluations is 0; it must be a whole number from 1"),
        ((*PLAN, "--evaluations", "9" * 30), "it must be a whole number from 1 to"),
        ((*PLAN, "--evaluations", "many"), "Invalid value for '--evaluations'"),
        ((*PLAN, "--seed=-1"), "seed is -1; it must be a whole number from 0"),
        ((*PLAN, "--seed", "1" * 30), "it must be a whole number from 0 to"),
        ((*PLAN, "--threads", "100000"), "threads is 100000; it must be a whole number from 1 to 1024"),
        ((*PLAN, "--pin", "op0"), "--pin 'op0' is not understood; write it like 'layers.0.*=gpu0'"),
        ((*PLAN, "--pin", "nothing*=0"), "pin 'nothing*' matches no op or module of graph 'towers'"),
        ((*PLAN, "--pin", "op0=7"), "machine '2xp100' has no device '7'; it has gpu0, gpu1"),
        ((*PLAN, "--pin", "op0=0", "--pin", "op0=1"), "--pin gives 'op0' two devices, 0 and 1"),
        ((*PLAN, "--pin", "op0=0", "--pin", "op?=1"), "the constraints leave no device for op 'op0'"),
        ((*PLAN, "--pin", "op0=0", "--forbid", "op0=0"), "the constraints leave no device for op 'op0'"),
        ((*PLAN, "--pin", "op0=0", "--pin", "op1=1", "--colocate", "op0,op1"), "the constraints leave no device"),
        ((*PLAN, "--colocate", "op0"), "--colocate 'op0' is not understood"),
        ((*PLAN, "--colocate", "op0,none*"), "colocate 'none*' matches no op"),
        ((*PLAN, "--set", "noise"), "--set 'noise' is not understood; write it like controllers=4"),
        ((*PLAN, "--set", "noise=NaN", "--set", "noise=1"), "--set gives 'noise' two values, nan and 1"),
        ((*PLAN, "--set", "nois=1", "--solver", "post"), "'post' has no setting 'nois'; did you mean noise?"),
        ((*PLAN, "--set", "noise=1"), "solver 'auto' has no settings, so none is 'noise'"),
        ((*PLAN, "--set", "batch=x", "--solver", "post"), "'batch' of solver 'post' cannot be 'x': input should be"),
        ((*PLAN, "--set", "batch=1", "--solver", "post"), "a batch of 1 placements must be from 2"),
        ((*PLAN, "--ray", "local", "--solver", "post"), "solver 'post' has no setting 'ray'"),
        ((*PLAN, "--ray", "here", "--solver", "colocrl"), "'here' is not the address of a Ray cluster"),
        ((*PLAN, "--dim", "batch"), "--dim 'batch' is not understood; write it like batch=8"),
        ((*PLAN, "--dim", "batch=0"), "--dim 'batch=0' is not understood"),
        ((*PLAN, "--dim", "batch=1", "--dim", "batch=2"), "--dim gives 'batch' two sizes, 1 and 2"),
        ((*PLAN, "--dim", "batch=8"), "has no open dimension 'batch'"),
        ((*PLAN, "--measured", "nowhere.csv"), "cannot read 'nowhere.csv'"),
        ((*PLAN, "-o", "no/such/folder/plan.json"), "cannot write 'no/such/folder/plan.json': No such file"),
        ((*PLAN, "-o", "."), "cannot write '.': it is a folder"),
        ((*PLAN, "-o", "x" * 300), "': File name too long"),
        ((*PLAN, "-o", "@"), "--output would overwrite '@', which is an input of this command"),
        ((*PLAN, "-o", "same", "--report", "same"), "--report would overwrite 'same', which is the --output output"),
        (("show", "@"), "is not a whole plan: 'graph_name' is missing"),
        (("show", "nowhere.json"), "cannot read 'nowhere.json'"),
        (("explain", "@"), "is not a whole plan"),
        (("export", "@", "--to", "perfeto"), "unknown export target 'perfeto'; did you mean perfetto?"),
        (("export", "@", "--to", "device-map", "--alignment", "64"), "the target device-map has no alignment"),
        (("devices", "show", "3xk8"), "unknown device 'k8'; did you mean k80?"),
        (("devices", "show", "k80", "-o", "machine.toml"), "must end in .json"),
        (("inspect", "example:nothing"), "there is no example 'nothing'"),
    ],
)
def test_one_sentence_names_the_thing(
    arguments: tuple[str, ...],
    sentence: str,
    placewright: Placewright,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = placewright(*(argument.replace("@", model.name) for argument in arguments))
    assert outcome.code == 2
    assert outcome.err.startswith("placewright: error: ")
    assert outcome.err.count("\n") == 1
    assert sentence.replace("@", model.name) in outcome.err
    assert outcome.out == ""
    assert [path.name for path in tmp_path.iterdir()] == [model.name]


def graph_file(**changes: Any) -> dict[str, Any]:
    """a -> b, changed."""
    ops = [{"name": "a", "kind": "other", "outputs": ["t"], "time_ns": 5}]
    ops += [{"name": "b", "kind": "other", "inputs": ["t"], "time_ns": 5}]
    return {"schema_version": 1, "name": "g", "tensors": [{"name": "t", "size_bytes": 8}], "ops": ops} | changes


def op(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "kind": "other", "time_ns": 1} | rest


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            graph_file(ops=[op("a", inputs=["t"], outputs=["u"]), op("b", inputs=["u"], outputs=["t"])],
                       tensors=[{"name": "t", "size_bytes": 1}, {"name": "u", "size_bytes": 1}]),
            "has a cycle: ",
        ),
        (graph_file(ops=[]), "has no ops"),
        (graph_file(ops=[op("a", outputs=["t"]), op("a", inputs=["t"])]), "two ops named 'a'"),
        (graph_file(tensors=[{"name": "t", "size_bytes": 8}] * 2), "two tensors named 't'"),
        (graph_file(tensors=[{"name": "t", "size_bytes": -8}]), "'size_bytes' must be a whole number from 0"),
        (graph_file(tensors=[{"name": "t", "size_bytes": 2**63}]), "'size_bytes' must be a whole number"),
        (graph_file(ops=[op("a", outputs=["t"], workspace_bytes=-1)]), "'workspace_bytes' must be"),
        (graph_file(ops=[op("a", outputs=["t"]) | {"time_ns": float("nan")}]), "every number must be finite"),
        (graph_file(ops=[op("a", inputs=["x"], outputs=["t"])]), "names the tensor 'x', which does not exist"),
        (graph_file(ops=[op(f"a{i}", time_ns=2**61) for i in range(3)], tensors=[]), "add up to more than 2**62 ns"),
        (graph_file(tensors=[{"name": f"{c}", "size_bytes": 2**61} for c in "tuv"],
                    ops=[op(f"a{c}", outputs=[c]) for c in "tuv"]), "add up to more than 2**62 bytes"),
        (graph_file(opps=[]), "unknown key 'opps'; did you mean 'ops'?"),
    ],
)  # fmt: skip
def test_an_impossible_graph_is_refused(
    content: dict[str, Any], sentence: str, placewright: Placewright, tmp_path: Path
) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(content))
    outcome = placewright("plan", tmp_path / "graph.json", "-d", "2xp100", "-o", tmp_path / "plan.json")
    assert outcome.code == 2
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "plan.json").exists()


@pytest.mark.parametrize(
    "name", ["truncated.onnx", "truncated.pb", "foreign.stg", "foreign.json", "foreign.gz", "empty"]
)
def test_a_truncated_or_foreign_file_is_refused_by_name(name: str, placewright: Placewright, tmp_path: Path) -> None:
    content = b"" if name == "empty" else b"\x08\x07\x12\xff\xff not a graph of anything \x00\x01"
    (tmp_path / name).write_bytes(content)
    outcome = placewright("plan", tmp_path / name, "-d", "2xp100")
    assert outcome.code == 2
    assert name in outcome.err
    assert outcome.err.count("\n") == 1


def test_ops_without_outputs_and_tensors_without_consumers_are_fine(placewright: Placewright, tmp_path: Path) -> None:
    ops = [op("a", outputs=["t"]), op("b")]
    (tmp_path / "g.json").write_text(json.dumps(graph_file(ops=ops)))
    assert placewright("plan", tmp_path / "g.json", "-d", "2xp100", "--evaluations", "1").code == 0


def test_a_device_file_with_a_typo_suggests_the_key(placewright: Placewright, model: Path, tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text('[[devices]]\npreset = "p100"\ncuont = 2\n')
    outcome = placewright("plan", model, "-d", tmp_path / "two.toml")
    assert outcome.code == 2
    assert "two.toml" in outcome.err
    assert "did you mean count?" in outcome.err


def test_pins_that_need_more_memory_than_there_is_are_code_3(placewright: Placewright, tmp_path: Path) -> None:
    # Three ops that each hold a parameter of 1 MiB: two devices of 2 MiB suffice, one does not.
    parameters = [{"name": f"w{i}", "size_bytes": 2**20, "role": "parameter"} for i in range(3)]
    ops = [op(f"a{i}", inputs=[f"w{i}"]) for i in range(3)]
    (tmp_path / "g.json").write_text(json.dumps(graph_file(tensors=parameters, ops=ops)))
    arguments = ["plan", tmp_path / "g.json", "-d", "2xp100", "--memory-limit", "2MiB", "--evaluations", "50"]
    assert placewright(*arguments).code == 0
    outcome = placewright(*arguments, "--pin", "a*=0")
    assert outcome.code == 3
    assert outcome.err == (
        "placewright: error: no plan was found that fits: 1.00 MiB missing on gpu0; "
        "every plan needs at least 1.50 MiB on its fullest device\n"
    )
