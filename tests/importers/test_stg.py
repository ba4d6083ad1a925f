"""Standard task graphs."""

from typing import Any

import pytest
from reference_data import FOLDER, needs_reference_data

from placewright.importers import load_graph
from placewright.importers.stg import parse_stg
from placewright.support.errors import InputError

STG = FOLDER / "stg50"


def complaint(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_stg(text.encode(), "g.stg")
    return str(caught.value)


def test_precedence_becomes_control_dependencies_and_the_dummies_stay() -> None:
    graph = parse_stg(b"2\n 0 0 0\n 1 5 1 0\n 2 7 2 0 1\n 3 0 2 1 2  # the end\n# a comment\n", "g.stg")
    assert [op.name for op in graph.ops] == ["task_0", "task_1", "task_2", "task_3"]
    assert [op.time_ns for op in graph.ops] == [0, 5, 7, 0]
    assert [op.controls for op in graph.ops] == [(), (0,), (0, 1), (1, 2)]
    assert graph.tensors == ()


def test_tasks_may_name_predecessors_that_come_later() -> None:
    graph = parse_stg(b"1\n 0 0 1 1\n 1 5 0\n 2 0 1 0\n", "g.stg")
    assert [op.name for op in graph.ops] == ["task_1", "task_0", "task_2"]


@needs_reference_data
def test_all_reference_files_load_with_the_critical_path_their_comment_states() -> None:
    files = sorted(STG.glob("*.stg"))
    assert len(files) == 180
    for file in files:
        graph = load_graph(file)
        finish = [0] * len(graph.ops)
        for index, op in enumerate(graph.ops):
            finish[index] = max((finish[control] for control in op.controls), default=0) + (op.time_ns or 0)
        stated = next(line for line in file.read_text().splitlines() if line.startswith("# CP Length"))
        assert (len(graph.ops), max(finish)) == (52, int(stated.split(":")[1]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# nothing", "'g.stg' is not a task graph: its first row must be the number of tasks alone"),
        ("1 2 3", "'g.stg' is not a task graph: its first row must be the number of tasks alone"),
        ("2\n 0 0 0\n", "'g.stg' announces 4 tasks with its two dummies but has 1 rows"),
        ("0\n 0 0 0\n 1 -3 0\n", "'g.stg', line 3: a task graph holds whole numbers only"),
        ("0\n 0 0 0\n 1 3 1\n", "'g.stg', line 3: a row is `task time predecessor-count predecessor...`"),
        ("0\n 0 0 0\n 0 3 0\n", "'g.stg', line 3: task 1 was expected here, not 0"),
        ("0\n 0 0 0\n 1 3 1 2\n", "'g.stg', line 3: predecessor 2 does not exist"),
        ("0\n 0 0 1 1\n 1 3 1 0\n", "graph 'g.stg' has a cycle: task_1 -> task_0 -> task_1"),
        (f"0\n 0 0 0\n 1 {2**62} 0\n", f"graph 'g.stg': op 'task_1' has an impossible time of {2**62} ns"),
    ],
)
def test_a_wrong_file_is_named_in_one_sentence(text: Any, expected: Any) -> None:
    assert expected in complaint(text)
