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
        ((*PLAN, "--keep", "nothing*"), "keep names 'nothing*', which matches no op of 'towers'"),
        ((*PLAN, "--time-limit", "3"), "duration '3' has no unit"),
        ((*PLAN, "--evaluations", "0"), "evaluations is 0; it must be a whole number from 1"),
        ((*PLAN, "--evaluations", "many"), "Invalid value for '--evaluations'"),
        ((*PLAN, "--seed=-1"), "seed is -1; it must be a whole number from 0"),
        ((*PLAN, "--threads", "100000"), "threads is 100000; it must be a whole number from 1 to 1024"),
        ((*PLAN, "--pin", "op0"), "--pin 'op0' is not understood; write it like 'layers.0.*=gpu0'"),
        ((*PLAN, "--pin", "nothing*=0"), "pin 'nothing*' matches no op or module of graph 'towers'"),
        ((*PLAN, "--pin", "op0=7"), "machine '2xp100' has no device '7'; it has gpu0, gpu1"),
        ((*PLAN, "--pin", "op0=0", "--pin", "op0=1"), "--pin gives 'op0' two devices, 0 and 1"),
        ((*PLAN, "--pin", "op0=0", "--pin", "op1=1", "--colocate", "op0,op1"), "the constraints leave no device"),
        ((*PLAN, "--colocate", "op0"), "--colocate 'op0' is not understood"),
        ((*PLAN, "--set", "noise"), "--set 'noise' is not understood; write it like batch=20"),
        ((*PLAN, "--set", "noise=NaN", "--set", "noise=1"), "--set gives 'noise' two values, nan and 1"),
        ((*PLAN, "--set", "nois=1", "--solver", "post"), "'post' has no setting 'nois'; did you mean noise?"),
        ((*PLAN, "--set", "noise=1"), "solver 'auto' has no settings, so none is 'noise'"),
        ((*PLAN, "--set", "batch=x", "--solver", "post"), "'batch' of solver 'post' cannot be 'x': input should be"),
        ((*PLAN, "--set", "batch=1", "--solver", "post"), "a batch of 1 placements must be from 2"),
        ((*PLAN, "--dim", "batch"), "--dim 'batch' is not understood; write it like batch=8"),
        ((*PLAN, "--dim", "batch=1", "--dim", "batch=2"), "--dim gives 'batch' two sizes, 1 and 2"),
        ((*PLAN, "--dim", "batch=8"), "has no open dimension 'batch'"),
        ((*PLAN, "--measured", "nowhere.csv"), "cannot read 'nowhere.csv'"),
        ((*PLAN, "-o", "no/such/folder/plan.json"), "cannot write 'no/such/folder/plan.json': No such file"),
        ((*PLAN, "-o", "."), "cannot write '.': it is a folder"),
        ((*PLAN, "-o", "x" * 300), "': File name too long"),
        ((*PLAN, "-o", "@"), "--output would overwrite '@', which is an input of this command"),
        ((*PLAN, "-o", "same", "--report", "same"), "--report would overwrite 'same', which is the --output output"),
        (("show", "@"), "is not a whole plan: 'graph_name' is missing"),
        (("explain", "@"), "is not a whole plan"),
        (("export", "@", "--to", "perfeto"), "unknown export target 'perfeto'; did you mean perfetto?"),
        (("devices", "show", "k80", "-o", "machine.toml"), "must end in .json"),
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


def test_ops_without_outputs_and_tensors_without_consumers_are_fine(placewright: Placewright, tmp_path: Path) -> None:
    ops = [op("a", outputs=["t"]), op("b")]
    (tmp_path / "g.json").write_text(json.dumps(graph_file(ops=ops)))
    assert placewright("plan", tmp_path / "g.json", "-d", "2xp100", "--evaluations", "1").code == 0


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
