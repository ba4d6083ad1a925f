"""Lists of available choices, help with examples, and the schemas of what --json prints."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Placewright

from placewright.cli.app import EXAMPLES, whole_app
from placewright.cli.schemas import all_types, schema_of
from placewright.lab.commands import EXAMPLES as LAB_EXAMPLES
from placewright.lab.learning.regal.trainings import TRAININGS
from placewright.lab.learning.shipped import shipped_names
from placewright.methods.table import ENTRIES, METHODS

ALL_EXAMPLES = {**EXAMPLES, **LAB_EXAMPLES}
ALL_TYPES = all_types()


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command by its words."""
    found: Any = group or typer.main.get_command(whole_app())
    for name, command in found.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_every_command_has_examples_and_they_are_its_own() -> None:
    assert {name for name, _ in commands()} == set(ALL_EXAMPLES)
    for name, command in commands():
        options = {option for parameter in command.params for option in parameter.opts}
        for text in ALL_EXAMPLES[name]:
            program, *words = shlex.split(text)
            assert program == "placewright"
            assert " ".join(words).startswith(name), text
            assert {word for word in words if word.startswith("-")} <= options, text
            # 80 columns, two of them to the left.
            assert len(text) <= 78


@pytest.mark.parametrize("name", ["plan", "bench run", "devices show"])
def test_help_ends_with_the_examples(placewright: Placewright, name: str) -> None:
    outcome = placewright(*name.split(), "--help")
    assert outcome.code == 0
    for text, what in ALL_EXAMPLES[name].items():
        assert f"  # {what}\n  " in outcome.out
        assert f"  {text}\n" in outcome.out


def test_summaries_of_commands_are_whole(placewright: Placewright) -> None:
    listed = placewright("--help").out.partition("Commands:")[2]
    assert "..." not in listed


def test_every_solver_is_listed_in_one_line(placewright: Placewright) -> None:
    outcome = placewright("solvers")
    lines = {line.split()[0]: line for line in outcome.out.splitlines() if line}
    assert set(ENTRIES) <= set(lines)
    assert {"auto", "regal", "placer"} <= set(ENTRIES)
    assert "default" in lines["auto"]
    assert "needs the extra cp" in lines["cp-sat"]
    assert "baseline" in lines["etf"]
    assert "peer" in lines["m-topo"]


def test_own_solvers_are_listed_too(placewright: Placewright, monkeypatch: pytest.MonkeyPatch) -> None:
    # Registered for this test alone.
    monkeypatch.setitem(METHODS, "near-inputs", METHODS["auto"])
    example = Path(__file__).parents[2] / "examples" / "own_method.py"
    found = json.loads(placewright("solvers", "--plugin", example, "--json").out)["solvers"]
    assert [method["kind"] for method in found if method["name"] == "near-inputs"] == ["own"]


def test_policies_are_listed_with_what_they_are_for(placewright: Placewright) -> None:
    outcome = placewright("policies")
    listed = json.loads(placewright("policies", "--json").out)["policies"]
    assert [policy["name"] for policy in listed] == shipped_names()
    for policy in listed:
        assert f"{policy['name']} " in outcome.out
        assert policy["solvers"] == ("gas" if policy["name"].endswith("sequence") else "regal, idrs")
    assert all(name in outcome.out for name in TRAININGS)


def test_every_json_is_as_its_schema_says(placewright: Placewright, model: Path, saved: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    placewright("bench", "run", model, "-d", "2xp100", "--solvers", "etf,list", "--jobs", "1", "--out", results)
    outputs = {
        "plan": ("plan", model, "-d", "2xp100", "--evaluations", "20", "--json"),
        "show": ("show", saved, "--json"),
        "map": ("map", "example:resnet50-int8", "--chip", "nnpi", "--solver", "marginal", "--json"),
        "fit": ("fit", model, "-d", "p100", "--evaluations", "5", "--json"),
        "inspect": ("inspect", model, "-d", "2xp100", "--json"),
        "explain": ("explain", saved, "--json"),
        "explain-op": ("explain", saved, "--op", "op3", "--json"),
        "diff": ("diff", saved, saved, "--json"),
        "examples": ("examples", "--json"),
        "solvers": ("solvers", "--json"),
        "policies": ("policies", "--json"),
        "check": ("check", model, saved, "--json"),
        "devices-list": ("devices", "list", "--json"),
        "bench-report": ("bench", "report", results, "--table", "1", "--table", "graphs", "--json"),
    }
    # The output of `run` and `profile`, which need PyTorch, is checked in test_run_command.py.
    assert set(outputs) == set(ALL_TYPES) - {"run", "profile"}
    for name, command in outputs.items():
        printed = json.loads(placewright(*command).out)
        schema = json.loads(placewright("schema", name).out)
        assert_fits(printed, schema, schema.get("$defs", {}), name)


@pytest.mark.parametrize("command", ALL_TYPES)
def test_a_schema_says_what_each_key_means(command: str) -> None:
    schema = schema_of(command)
    records = [schema, *schema.get("$defs", {}).values()]
    keys = [(one["title"], key, below) for one in records for key, below in one.get("properties", {}).items()]
    assert keys
    assert [f"{title}.{key}" for title, key, below in keys if not below.get("description")] == []


def assert_fits(value: Any, schema: dict[str, Any], definitions: dict[str, Any], where: str) -> None:
    """Check the keys, and the types that JSON has, all the way down."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        problems = []
        for option in schema["anyOf"]:
            try:
                return assert_fits(value, option, definitions, where)
            except AssertionError as error:
                problems.append(str(error))
        raise AssertionError(f"{where}: {problems}")
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
    }
    if schema.get("type") == "null":
        assert value is None, where
    elif "type" in schema:
        assert isinstance(value, kinds[schema["type"]]), f"{where} is {value!r}, not {schema['type']}"
    if "enum" in schema:
        assert value in schema["enum"], where
    if "properties" in schema:
        assert set(value) == set(schema["properties"]), where
        for key, below in schema["properties"].items():
            assert_fits(value[key], below, definitions, f"{where}.{key}")
    for item in value if isinstance(value, list) and "items" in schema else ():
        assert_fits(item, schema["items"], definitions, f"{where}[]")
    return None


def test_a_command_without_json_has_no_schema(placewright: Placewright) -> None:
    outcome = placewright("schema", "explian")
    assert outcome.code == 2
    assert "there is no schema of 'explian'; did you mean explain?" in outcome.err


def test_quiet_prints_nothing_and_still_writes(placewright: Placewright, model: Path, tmp_path: Path) -> None:
    outcome = placewright("plan", model, "-d", "2xp100", "--evaluations", "20", "-q", "-o", tmp_path / "p.json")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert placewright("show", tmp_path / "p.json").out
    refused = placewright("plan", model, "-d", "2xp1000", "-q")
    assert (refused.code, refused.out) == (2, "")
    assert "unknown device" in refused.err
    assert placewright("dataset", "pack", model, "-q", "-o", tmp_path / "a.graphs.gz").out == ""


def test_completion_can_be_shown() -> None:
    environment = {
        **os.environ,
        "_PLACEWRIGHT_COMPLETE": "complete_bash",
        "COMP_WORDS": "placewright pol",
        "COMP_CWORD": "1",
    }
    shown = subprocess.run(
        [sys.executable, "-m", "placewright"], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert shown.stdout.split() == ["policies"]


def on_a_terminal(columns: int, *arguments: str | Path, **environment: str) -> str:
    """Return what a command shows on a terminal of that many columns."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "placewright", *map(str, arguments)]
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), **environment}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=variables) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # Linux says so when the other end is closed.
            pass
        process.wait()
    os.close(ours)
    return shown.decode()


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_the_terminal(saved: Path, columns: int) -> None:
    for command in (["show", saved], ["explain", saved], ["explain", saved, "--op", "op3"], ["solvers"]):
        shown = on_a_terminal(columns, *command, NO_COLOR="1")
        assert shown
        assert max(len(line) for line in shown.splitlines()) <= min(columns, 100)


def test_no_color_leaves_no_codes(saved: Path) -> None:
    assert "\x1b[" in on_a_terminal(80, "show", saved, NO_COLOR="")
    assert "\x1b" not in on_a_terminal(80, "show", saved, NO_COLOR="1")


@pytest.mark.parametrize(
    ("code", "complaint"), [("import nonesuch_of_all", "failed: "), ("X = 3", "is no placewright")]
)
def test_commands_that_cannot_be_had_are_named_beside_those_that_can(
    code: str, complaint: str, placewright: Placewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_commands.py").write_text(code)
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[placewright.commands]\nbad = broken_commands:X\n")
    monkeypatch.syspath_prepend(tmp_path)
    whole_app.cache_clear()
    outcome = placewright("--help")
    assert outcome.code == 0
    assert "bench" in outcome.out
    assert f"entry point 'bad' (broken_commands:X) {complaint}" in outcome.err
