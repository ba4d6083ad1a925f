"""Every script in benchmarks/ runs to its end on something tiny, as a process of its own."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE_S

import placewright._core
from placewright.graph import Graph, Op, Tensor
from placewright.importers.graph_set import write_graph_set

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "benchmarks"
#: Imported by the others, or run by one of them.
PARTS = """
captured_steps exact_reruns halving large_graphs library_builders library_limits library_process library_records
timed_plans report state_changes zoo_modules
"""
SUITE = """graphs = "tiny.graphs.gz"
devices = "{devices}"
objective = "{objective}"
control = "{control}"
"""

WAYS = ["--ways", "one", "two", "half", "spliced", "again", "--out", "OUT/rows.jsonl"]
#: What makes a script tiny: words in capitals are the files of the fixture, OUT is a folder for what it writes.
TINY = {
    "action_figures": ["SUITE", "runtime-synthetic-lazy", "OUT", "--take", "1"],
    "against": ["INSTALLED", "--ops", "40", "--rounds", "1"],
    "annealing_ways": ["--set", "GRAPHS", "--evaluations", "200", "--machines", "2xv100-32g/pcie3", *WAYS],
    "auto_oracles": ["OUT", "--suites", "SUITE", "--seconds", "0.02", "--seeds", "2"],
    "bounds": ["GRAPHS", "2xideal/free", "step-time", "order", "--every", "2"],
    "default_budget": ["--graphs", "GRAPHS"],
    "gdp": ["OUT", "--quick"],
    "find_rule": ["rule-x", "--candidates", "8", "--take", "2", "--evaluations", "450", "--out", "OUT"],
    "large_search": ["--ops", "60", "--evaluations", "200"],
    "large_suites": ["OUT", "--sizes", "1000", "--synthetic", "1"],
    "memory_levels": ["--networks", "resnet18-int8", "--seconds", "0.2", "--proof-seconds", "0.5"],
    "process": ["--rounds", "1", "--ops", "100"],
    "reward_luck": ["SUITE", "runtime-synthetic-lazy", "--take", "1", "--samples", "2", "--seeds", "2"],
    "rerun_budgets": ["--set", "GRAPHS", "--take", "1", "--out", "OUT/rows.jsonl"],
    "saga_schedules": ["--count", "1", "--seconds", "0.05"],
    "scale": ["random", "1000"],
    "stg": ["STG", "OUT"],
    "training_figures": ["OUT", str(SCRIPTS / "policies" / "seed-0"), str(SCRIPTS / "policies" / "seed-2")],
}
#: Those that need the extra `zoo`, which takes long to import.
TINY_WITH_TORCH = {
    "egrl": ["OUT", "--networks", "resnet18-int8", "--seeds", "1", "--evaluations", "22", "--gradient-steps", "0"],
    "library_steps": ["--networks", "torch_geometric/gin", "--out", "OUT/rows.jsonl"],
    "python_state": ["OUT/rows.jsonl", "--ways", "compile", "--only", "part/parameter_written"],
    "one_device": ["--networks", "randwire_ws", "--seconds", "0.1"],
    "placers": ["OUT", "--quick", "--methods", "gdp", "gdp-untrained", "metis-dfs", "auto"],
    "advice": ["--networks", "gpt2", "--scale", "12", "--time-limit", "1s"],
    "fit": ["--networks", "mmoe", "--out", "OUT/rows"],
    "streaming": ["--networks", "mmoe", "--out", "OUT/rows"],
    "fit_run": ["--networks", "mmoe", "--steps", "1", "--out", "OUT/rows.jsonl"],
    "fit_gpu": ["--device", "cpu", "--small", "--networks", "two_layers", "--compiled", "two_layers"],
    "inductor_limits": ["OUT/rows.jsonl", "--text", "flat:512x32 linear.4 act.1 ; square", "--shares", "0.9"],
    "fit_inductor": ["two_layers", "--lowest", "--out", "OUT/rows.jsonl"],
    "run_gpu": ["--quick", "--devices", "cpu:0,cpu:1", "--steps", "2", "--out", "OUT/rows"],
    "run_memory": ["--inference", "mmoe", "--training", "mmoe", "--evaluations", "10"],
    "run_process_memory": ["--inference", "mmoe", "--training", "--batch", "1"],
    "roofline_error": ["--quick", "--efficiencies"],
    "run_networks": ["--quick", "--steps", "2", "--out", "OUT/rows"],
    "run_overhead": ["--networks", "mmoe", "--steps", "1"],
    "run_reports": ["OUT", "--networks", "mmoe", "--steps", "2"],
    "real_networks": ["--networks", "lstm1", "--out", "OUT/networks.graphs.gz"],
}
TINY_WITH_TORCH["egrl"] += ["--methods", "egrl", "random"]
TINY_WITH_TORCH["fit_gpu"] += ["--limits", "0.7", "--budgets", "0.5", "--out", "OUT/rows.jsonl"]


def graph(name: str, num_ops: int) -> Graph:
    """Every op takes 1 to 100 us and reads up to two of the four before it."""
    draw = random.Random(name)
    ops = tuple(
        Op(
            name=f"op{index}",
            kind="other",
            inputs=tuple({draw.randrange(max(0, index - 4), index) for _ in range(2) if index}),
            outputs=(index,),
            time_ns=draw.randint(1_000, 100_000),
        )
        for index in range(num_ops)
    )
    tensors = tuple(Tensor(name=f"op{index}:0", size_bytes=draw.randint(1, 2**16)) for index in range(num_ops))
    return Graph(name=name, ops=ops, tensors=tensors)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Return the path that each word of TINY stands for."""
    out, stg = tmp_path / "out", tmp_path / "stg"
    out.mkdir()
    stg.mkdir()
    write_graph_set(tmp_path / "tiny.graphs.gz", [graph("a", 24), graph("b", 32)], {"set": "tiny"})
    suite = SUITE.format(devices="2xideal/free", objective="step-time", control="order")
    (tmp_path / "suite.toml").write_text(suite)
    linked = SUITE.format(devices="2xv100-32g/nvlink", objective="step-time", control="signal")
    (tmp_path / "linked.toml").write_text(linked)
    # A source and a sink without time, and between them two tasks that run in parallel: 3 on 2 processors.
    (stg / "two.stg").write_text("2\n0 0 0\n1 2 1 0\n2 3 1 0\n3 0 2 1 2\n")
    certified = "instance,procs,lower_bound,upper_bound,status\ntwo.stg,2,3,3,OPTIMAL\n"
    (stg / "certified_makespans.csv").write_text(certified)
    # The package as it would be after an installation: its Python files and the core next to them.
    installed = tmp_path / "installed"
    (installed / "placewright").mkdir(parents=True)
    for path in (*(ROOT / "src" / "placewright").iterdir(), Path(placewright._core.__file__)):
        (installed / "placewright" / path.name).symlink_to(path)
    return {
        "SUITE": str(tmp_path / "suite.toml"),
        "LINKED": str(tmp_path / "linked.toml"),
        "GRAPHS": str(tmp_path / "tiny.graphs.gz"),
        "STG": str(stg),
        "INSTALLED": str(installed),
        "OUT": str(out),
    }


def run(script: str, arguments: list[str], files: dict[str, str]) -> str:
    """Run a script, check that it succeeds, and return what it printed."""
    for word, path in files.items():
        arguments = [path + argument.removeprefix(word) if argument.split("/")[0] == word else argument
                     for argument in arguments]  # fmt: skip
    command = [sys.executable, str(SCRIPTS / f"{script}.py"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("script", sorted(TINY))
def test_a_script_runs_to_its_end_on_something_tiny(script: str, files: dict[str, str]) -> None:
    printed = run(script, TINY[script], files)
    assert printed or any(Path(files["OUT"]).iterdir())
    assert "nan" not in printed


@pytest.mark.long
@pytest.mark.parametrize("script", sorted(TINY_WITH_TORCH))
def test_a_script_that_captures_networks_runs_to_its_end(script: str, files: dict[str, str]) -> None:
    assert run(script, TINY_WITH_TORCH[script], files)


@pytest.mark.long
def test_limits_of_several_devices_and_of_inductor_have_tables_of_their_own(files: dict[str, str]) -> None:
    printed = run("fit", ["--devices", "2xa100", "--networks", "mmoe", "--out", "OUT/rows"], files)
    assert len([line for line in printed.splitlines() if line.startswith("| mmoe |")]) == 3
    printed = run("fit", ["--fused", "--networks", "mmoe", "--out", "OUT/rows"], files)
    assert len([line for line in printed.splitlines() if line.startswith("| mmoe |")]) == 1


@pytest.mark.long
def test_the_search_stands_beside_cp_sat(files: dict[str, str]) -> None:
    printed = run("fit", ["--exact", "2", "--networks", "unet"], files)
    assert re.fullmatch(r"unet 30%: \+\d+\.\d% by the search, \+\d+\.\d% by CP-SAT, at least \+\d+\.\d%\n", printed)


@pytest.mark.long
def test_rows_of_limits_under_inductor_are_taken_up(files: dict[str, str]) -> None:
    asked = ["lstm", "two_layers", "--limits", "0.9", "--out", "OUT/rows.jsonl"]
    printed = run("fit_inductor", asked, files)
    assert re.search(r"^\| two_layers \| 0\.9 \|", printed, re.MULTILINE)
    assert re.search(r"^- lstm 0\.9 refused, 1\.000 compiled: PyTorch hands no recurrent", printed, re.MULTILINE)
    assert "2 rows: 1 refused, 1 kept." in printed
    # Those that were compiled again would have other times.
    assert run("fit_inductor", asked, files) == printed
    assert run("fit_inductor", [*asked, "--table"], files) == printed


@pytest.mark.parametrize(("script", "method"), [("placers", "gdp"), ("egrl", "egrl")])
def test_methods_of_the_laboratory_are_choices_of_scripts(script: str, method: str, files: dict[str, str]) -> None:
    # In a process of its own: here the laboratory has been loaded.
    assert "--methods" in run(script, ["OUT", "--methods", method, "--help"], files)


def test_no_script_is_left_out() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} == {*TINY, *TINY_WITH_TORCH, *PARTS.split()}
