"""`placewright map`, and the commands that read maps."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_problems import two_ops

from placewright import cli
from placewright.importers import save_graph
from placewright.lab.memory_levels import load_map, map_memory
from placewright.support.errors import InputError

RESNET = "example:resnet50-int8"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.run([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_map_is_made_shown_explained_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = tmp_path / "best.json"
    code, out, _ = run(capsys, "map", RESNET, "--chip", "nnpi", "--evaluations", 4000, "-o", best)
    assert code == 0
    assert "resnet50-int8 on nnpi: 106.92 us" in out
    assert "1.025x as fast as compiler h0's map (109.63 us), the best rule" in out
    assert "fc.weight" in out
    # Except for the line that says what was written.
    assert run(capsys, "show", best)[1].strip() in out
    code, out, _ = run(capsys, "explain", best)
    assert code == 0
    assert "waiting for memory" in out
    # The module fc alone goes from LLC to SRAM: 1000 * 2048 B of weights and 4 B for each of its 1000 biases.
    assert load_map(best).explain().facts.transitions[1][0] >= 1000 * 2048 + 4 * 1000
    for words, sentence in (
        (("explain", best, "--op", "fc"), "is a memory map, which is explained as a whole"),
        (("diff", best, best), "is a memory map, and this needs a plan"),
        (("export", best, "--to", "perfetto"), "is a memory map, which is exported to csv, not to perfetto"),
    ):
        code, _, err = run(capsys, *words)
        assert code == 2
        assert sentence in err
    code, out, _ = run(capsys, "check", RESNET, best)
    assert code == 0
    assert out.startswith("correct: 106.92 us, every level within its capacity\n")


def test_a_map_that_claims_too_much_is_refuted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "map.json"
    run(capsys, "map", RESNET, "--chip", "nnpi", "--solver", "density", "-o", path)
    document = json.loads(path.read_text())
    document["latency_ps"] -= 1
    path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in document.items()) + "\n}\n")
    code, out, _ = run(capsys, "check", RESNET, path)
    assert code == 1
    assert "wrong" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("map", RESNET, "--chip", "nnip"), "unknown chip 'nnip'; did you mean nnpi?"),
        (("map", RESNET, "--chip", "nnpi", "--solver", "exat"), "unknown solver 'exat'; did you mean exact?"),
        (("map", RESNET, "--chip", "nnpi-prefetch", "--solver", "exact"), "needs a chip without prefetching"),
        (("map", RESNET, "--chip", "nnpi", "--evaluations", "0"), "evaluations is 0"),
        (("map", RESNET, "--chip", "missing.toml"), "cannot read 'missing.toml'"),
        (("map", RESNET, "--chip", "nnpi", "-o", "missing/map.json"), "cannot write 'missing/map.json'"),
    ],
)
def test_bad_arguments_end_in_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_map_is_checked_against_its_own_graph_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_graph(two_ops(), tmp_path / "two.json")
    path = tmp_path / "map.json"
    run(capsys, "map", RESNET, "--chip", "nnpi", "--solver", "h6", "-o", path)
    code, _, err = run(capsys, "check", tmp_path / "two.json", path)
    assert code == 2
    assert "is for another graph than 'two-ops'" in err


def test_a_map_is_exported_as_a_table_of_its_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = map_memory(two_ops(), "nnpi", solver="marginal")
    found.save(tmp_path / "map.json")
    code, out, _ = run(capsys, "export", tmp_path / "map.json", "--to", "csv")
    assert (code, out) == (0, f"{tmp_path / 'map.csv'}\n")
    with open(tmp_path / "map.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["tensor"] for row in rows] == [tensor.name for tensor in found.tensors]
    levels = found.chip.level_names
    for row, tensor in zip(rows, found.tensors, strict=True):
        assert (row["level"], row["compiler_level"]) == (levels[tensor.level], levels[tensor.compiler_level])
        assert (row["role"], int(row["size_bytes"])) == (
            "weight" if tensor.is_weight else "activation",
            tensor.size_bytes,
        )
        held = (int(row["first_position"]), int(row["last_position"]))
        assert held == (tensor.first, tensor.last)
        assert (row["first_op"], row["last_op"]) == tuple(found.ops[position].name for position in held)


def test_in_python_a_map_answers_the_same_questions(tmp_path: Path) -> None:
    graph = two_ops()
    found = map_memory(graph, "nnpi", solver="marginal")
    assert found.check(graph).facts.correct
    assert found.explain().facts.num_moves >= 0
    found.save(tmp_path / "map.json")
    assert load_map(tmp_path / "map.json") == found
    with pytest.raises(InputError, match="say which graph"):
        found.check()


def test_the_larger_of_a_gpu_and_its_host_holds_what_the_gpu_cannot() -> None:
    found = map_memory("example:llama-3-8b-train", "h100+host", solver="density")
    names = found.chip.level_names
    assert names == ("HBM", "host", "disk")
    assert found.peak_bytes(0) <= found.chip.levels[0].capacity_bytes
    assert found.peak_bytes(1) > 0


def test_code_that_a_map_records_is_run_only_where_the_command_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, code = tmp_path / "map.json", tmp_path / "net.py"
    trace = tmp_path / "trace"
    code.write_text(f"open({str(trace)!r}, 'w').close()\ndef build():\n    raise RuntimeError('built')\n")
    found = map_memory(two_ops(), "nnpi", solver="density")
    replace(found, configuration={**found.configuration, "model": f"{code}:build"}).save(path)
    for command in ("show", "explain"):
        assert run(capsys, command, path)[2] == ""
    with pytest.raises(InputError, match="code that a file records is never run"):
        load_map(path).check()
    assert not trace.exists()
    assert "RuntimeError: built" in run(capsys, "check", f"{code}:build", path)[2]
    assert trace.exists()
