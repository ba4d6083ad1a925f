"""Code of README and tutorials runs as it is, and names in documents exist."""

import json
import re
import shlex
import shutil
import textwrap
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import typer.main

import placewright
from placewright import cli
from placewright.cli.app import whole_app
from placewright.importers import graph_set, json_graph
from placewright.lab.bench import rows
from placewright.lab.memory_levels.record import SCHEMA_VERSION as MAP_VERSION
from placewright.machines import load_machine
from placewright.methods import policy_file
from placewright.plans.record import SCHEMA_VERSION as PLAN_VERSION

ROOT = Path(__file__).parent.parent
TUTORIALS = [
    # The page about trainers runs in a process of its own: tests/execution/pytorch/test_fitted_module.py.
    *(page for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")) if page.stem != "trainers"),
    *sorted((ROOT / "docs").glob("own-*.md")),
    *(ROOT / "docs" / "lab" / f"{name}.md" for name in ("research", "own-policies")),
]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def run_blocks(document: Path) -> None:
    """Python in one namespace and commands one by one, from top to bottom, in the current folder; TOML is a machine."""
    names: dict[str, object] = {}
    blocks = re.findall(r"^```(python|sh|toml)\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    for language, code in blocks:
        if language == "toml":
            Path("lab.toml").write_text(code)
            continue
        if language == "python":
            exec(compile(code, str(document), "exec"), names)
            continue
        for line in code.replace("\\\n", " ").splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "placewright", line
            assert cli.run(arguments) == 0, line


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(ROOT / "README.md")
    assert {path.name for path in tmp_path.iterdir()} == {"plan.json", "report.html", "trace.json.gz"}


def test_the_loop_of_the_readme_is_that_of_the_page_about_trainers() -> None:
    """The code of that page runs in tests/execution/pytorch/test_fitted_module.py."""
    loop = re.search(r"^    model = .*?\n\n", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert loop
    assert textwrap.dedent(loop[0]).strip() in (ROOT / "docs" / "tutorials" / "trainers.md").read_text()


@pytest.mark.heavy
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(tutorial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "own_method.py", tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    towers = tmp_path / "examples" / "towers.py"
    image, smaller = "torch.randn(4, 3, 64, 64)", "torch.randn(1, 3, 32, 32)"  # a sixteenth of the work
    assert image in towers.read_text()
    towers.write_text(towers.read_text().replace(image, smaller))
    run_blocks(tutorial)


@pytest.mark.heavy
@pytest.mark.parametrize("notebook", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_kept_without_outputs(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            exec(compile(text, str(notebook), "exec"), names)
        else:
            assert [name for name in LINK.findall(text) if not (notebook.parent / name).exists()] == []


@pytest.mark.parametrize("number", [0, 1])
def test_a_machine_file_in_the_documents_is_one(number: int, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "machines.md").read_text()
    code = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[number]
    devices = "" if "[[devices]]" in code else '[[devices]]\npreset = "t4"\ncount = 2\n'
    (tmp_path / "machine.toml").write_text(devices + code)
    assert load_machine(tmp_path / "machine.toml").num_devices > 1


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    targets = LINK.findall(document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_the_places_that_the_page_about_the_paper_names_exist() -> None:
    places = re.findall(r"`((?:src|cpp|docs|benchmarks)/[^`]+)`", (ROOT / "docs" / "lab" / "paper.md").read_text())
    assert len(places) > 20
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_the_page_about_compatibility_tells_the_numbers_of_the_code() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()
    told = {name: int(number) for name, number in re.findall(r"^\| \[([^\]]+)\][^|]*\| (\d+)", page, re.MULTILINE)}
    assert told == {
        "Plan JSON": PLAN_VERSION,
        "Memory map": MAP_VERSION,
        "Graph JSON": json_graph.SCHEMA_VERSION,
        "Graph set": graph_set.SCHEMA_VERSION,
        "Policy file": policy_file.SCHEMA_VERSION,
        "Rows and `run.json`": rows.SCHEMA_VERSION,
        "What `--json` prints": 1,
    }


def test_what_the_page_about_compatibility_calls_stable_exists() -> None:
    (row,) = re.findall(r"^\| stable \|.*$", (ROOT / "docs" / "compatibility.md").read_text(), re.MULTILINE)
    names = re.findall(r"`placewright\.([\w.]+)`", row)
    assert names == ["plan", "fit", "compile", "inspect", "Plan.check"]
    assert all(callable(attrgetter(name)(placewright)) for name in names)
    app: Any = typer.main.get_command(whole_app())
    commands = re.findall(r"`placewright (\w+)`", row)
    assert commands == [name for name in ("plan", "fit", "inspect", "check") if name in app.commands]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_of_documents_stay_under_120_characters_but_for_tables(document: Path) -> None:
    assert [line for line in document.read_text().splitlines() if len(line) >= 120 and not line.startswith("|")] == []
