"""Every command that documents give for their figures is accepted as written, and starts."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from placewright import cli

ROOT = Path(__file__).parents[3]
DOCUMENTS = (
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*/*.md")),
)
#: Values for the words of a documented command that the reader chooses.
CHOICES = {
    "GRAPHS": "instances.graphs.gz",
    "DEVICES": "2xideal/free",
    "OBJECTIVE": "step-time",
    "CONTROL": "order",
    "POLICY": "runtime-synthetic-lazy",
    "N": "2000",
}


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Yield a document and the words of a command in it after the program; a command may continue on the next line."""
    beginning = r"(^|\s)" + r"\s+".join(map(re.escape, program.split()))
    for document in DOCUMENTS:
        for span in re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S)):
            if re.search(beginning, span):
                words = shlex.split(span.replace("[", "").replace("]", "").replace("...", ""))
                yield document.name, words


SCRIPT_COMMANDS = [(name, words) for name, words in commands("python benchmarks/")]
MAKE_TARGETS = sorted({words[1] for _, words in commands("make ") if words[0] == "make" and len(words) > 1})


@pytest.mark.parametrize(
    ("document", "words"), SCRIPT_COMMANDS, ids=[f"{name}: {' '.join(words)}" for name, words in SCRIPT_COMMANDS]
)
def test_a_script_takes_the_arguments_that_a_document_gives_it(
    document: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    script = next(word for word in words if word.startswith("benchmarks/") and word.endswith(".py"))
    arguments = [CHOICES.get(word, word) for word in words[words.index(script) + 1 :]]
    importlib.import_module(Path(script).stem).parser().parse_args(arguments)


@pytest.mark.parametrize("target", MAKE_TARGETS)
def test_a_target_of_make_that_a_document_names_exists(target: str) -> None:
    ended = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


#: In place of the folder of a training that a reader makes.
TRAINED = "benchmarks/policies/seed-0/"
RUNS = [
    (name, words) for name, words in commands("placewright bench run benchmarks/suites/") if "SUITE" not in words[3]
]


@pytest.mark.parametrize(("document", "words"), RUNS, ids=[f"{name}: {' '.join(words[3:])}" for name, words in RUNS])
def test_a_run_of_a_document_makes_its_first_row(
    document: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    suite = Path(words[3])
    graphs = tomllib.loads(suite.read_text())["graphs"]
    given = [word.replace("RUN/", TRAINED) for word in words[words.index("placewright") + 1 :]]
    if isinstance(graphs, str) and not (suite.parent / graphs).exists():
        # The set comes by `make instances`; its suite runs over graphs that are here.
        own = tmp_path / suite.name
        own.write_text(suite.read_text().replace(graphs, str(ROOT / "tests" / "committed.graphs.gz")))
        given[given.index(words[3])] = str(own)
    # Each given again, the last counts: one graph, and just more evaluations than a policy's features take.
    tiny = ["--take", "1", "--evaluations", "401", "--seeds", "1", "--out", str(tmp_path / "rows")]
    assert cli.run([*given, *tiny]) == 0
    assert (tmp_path / "rows" / "rows.jsonl").read_text()
