"""Plans run by several processes: what they compute, and what happens when one of them fails, dies or is silent."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from waiting import PATIENCE_S

import placewright
from placewright.execution.devices import available_cores
from placewright.execution.pytorch.layout import extent_of, packed
from placewright.execution.pytorch.ranks import group
from placewright.execution.pytorch.ranks.group import backend_for, cores_of_rank

TESTS = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(len(available_cores()) < 2, reason="two ranks need a core each")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def started(*cases: str, count: int = 2, devices: str = "ranks") -> list[subprocess.Popen[str]]:
    """The processes of cases of rank_cases.py, one per rank."""
    port = str(free_port())
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    return [
        subprocess.Popen(
            [sys.executable, str(TESTS / "rank_cases.py"), *cases],
            env={**common, "RANK": str(rank), "RANK_DEVICES": devices, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What each of two ranks prints that end well, in one group: starting one takes longer than what they do."""
    return ended_well("equal", "trains", "moves", "survives")


def ended_well(*cases: str, count: int = 2, devices: str = "ranks") -> list[str]:
    processes = started(*cases, count=count, devices=devices)
    try:
        told = [process.communicate(timeout=PATIENCE_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * count, "\n".join(map("".join, told))
    return [output for output, _ in told]


def test_two_ranks_compute_what_the_module_computes(said: list[str]) -> None:
    for output in said:
        assert output.startswith("equal: as the module\ntrains: as the module\nmoves: as the module\n")


def test_two_ranks_on_gpus_compute_what_the_module_computes() -> None:
    """On stand-ins, which object to what is not in order."""
    for output in ended_well("trains", devices="ranks:cuda"):
        assert output == "trains: as the module\n"


@pytest.mark.long
def test_two_ranks_on_gpus_hand_over_all_that_the_module_has() -> None:
    for output in ended_well("equal", devices="ranks:cuda"):
        assert output == "equal: as the module\n"


@pytest.mark.long
def test_three_ranks_compute_what_the_module_computes() -> None:
    assert ended_well("three", count=3) == ["three: as the module\n"] * 3


@pytest.mark.long
def test_two_ranks_train_a_real_network_as_it_trains() -> None:
    assert ended_well("network") == ["network: as the module\n"] * 2


def test_the_backend_of_a_group_is_that_of_the_devices_its_tensors_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert backend_for({"cpu"}) == "gloo"
    if not torch.distributed.is_nccl_available():
        with pytest.raises(
            placewright.InputError, match=r"^ranks with tensors on cuda devices need nccl, which this PyT"
        ):
            backend_for({"cpu", "cuda"})
    monkeypatch.setitem(group._BACKENDS, "cuda", ("nccl", lambda: True))
    assert backend_for({"cuda"}) == "nccl"
    assert backend_for({"cuda", "cpu"}) == "cpu:gloo,cuda:nccl"
    with pytest.raises(
        placewright.InputError, match="ranks cannot send tensors from the device mps; they can from cpu"
    ):
        backend_for({"mps", "cpu"})


def test_what_goes_wrong_on_one_rank_is_said_on_all_and_leaves_them_able_to_run(said: list[str]) -> None:
    first, second = said
    assert "fails: ValueError: something is wrong with 3: raised by the op 'act' on the device rank:1" in second
    assert "fails: RankError: rank 1 stopped: ValueError: something is wrong with 3; raised by the op 'act'" in first
    assert "interrupted: KeyboardInterrupt" in second
    assert "interrupted: RankError: rank 1 stopped: it was interrupted" in first
    assert ("late: KeyboardInterrupt" in first, "late: KeyboardInterrupt" in second) == (False, True)
    differ = "all ranks must do the same; rank 0 runs Acts with inputs float32[5, 8] for the first time, rank 1 runs"
    assert f"shapes: {differ}" in first
    assert f"shapes: {differ}" in second
    changed = "'after.bias' is now float32[9], and the plan was made for float32[8]; compile the module again"
    assert f"parameter: {changed}" in second
    assert f"parameter: rank 1 refused: {changed}" in first
    differ = "rank 0 runs Acts with inputs float32[4, 8], rank 1 runs Acts with inputs float32[4, 8] anew, as something"
    assert f"changed: all ranks must do the same; {differ} in it has changed" in first
    assert first.count("changed: ") == second.count("changed: ") == 1
    assert "planning: pin 'nobody' matches no op or module of graph 'Acts'" in first
    assert "planning: rank 0 could not go on: InputError: pin 'nobody' matches no op or module" in second
    assert "threads left: 0" in first
    assert "threads left: 0" in second


def test_a_rank_that_dies_in_a_step_is_named_and_the_others_end() -> None:
    first, second = started("killed")
    told, complaints = first.communicate(timeout=PATIENCE_S)
    second.communicate(timeout=PATIENCE_S)
    assert (first.returncode, second.returncode) == (0, -9), complaints
    assert told.splitlines() == [
        *(["rank 1 is gone, its connection closed; start all ranks again to run on"] * 2),
        "threads left: 0",
    ]


@pytest.mark.long
def test_a_rank_that_does_not_answer_is_waited_for_no_longer_than_said() -> None:
    first, second = started("silent")
    try:
        told, complaints = first.communicate(timeout=PATIENCE_S)
    finally:
        second.kill()
        second.communicate(timeout=PATIENCE_S)
    assert first.returncode == 0, complaints
    assert told.splitlines() == [
        *(["rank 1 did not answer within 8 s; start all ranks again to run on"] * 2),
        "threads left: 0",
    ]


@pytest.mark.long
def test_two_agents_of_torchrun_train_the_example_as_two_hosts_would(tmp_path: Path) -> None:
    port = str(free_port())
    agents = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"),
                *("--node-rank", str(host), "--master-addr", "127.0.0.1", "--master-port", port),
                *(str(TESTS.parent / "examples" / "ranks.py"), "--steps", "2"),
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for host in range(2)
    ]
    try:
        told = [agent.communicate(timeout=PATIENCE_S) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert [agent.returncode for agent in agents] == [0, 0], told
    assert "step 0: loss" in told[0][0]
    assert set(torch.load(tmp_path / "towers.pt")) >= {"left.0.weight", "right.0.weight", "head.bias"}


def test_ranks_need_a_process_group() -> None:
    with pytest.raises(placewright.InputError, match="devices='ranks' needs a process group: start the script with"):
        placewright.compile(torch.nn.Linear(2, 2), torch.zeros(1, 2), devices="ranks")


def test_a_timeout_is_for_ranks() -> None:
    with pytest.raises(placewright.InputError, match="a timeout is how long ranks wait for each other"):
        placewright.compile(torch.nn.Linear(2, 2), torch.zeros(1, 2), devices="cpu:0", timeout=3)


def test_ranks_of_one_host_share_its_cores_and_others_have_their_own() -> None:
    hosts = [("a", (0, 1, 2, 3, 4)), ("b", (0, 1)), ("a", (0, 1, 2, 3, 4)), ("b", (2, 3))]
    # Two ranks share five cores of a: two each. Those of b were given cores of their own.
    expected = [{0, 1}, {0, 1}, {2, 3}, {2, 3}]
    assert [cores_of_rank(hosts, rank) for rank in range(4)] == expected
    with pytest.raises(placewright.InputError, match="2 ranks on a need a core each, and may use 1"):
        cores_of_rank([("a", (0,)), ("a", (0,))], 1)


def test_memory_goes_as_it_lies_unless_it_has_gaps() -> None:
    whole = torch.arange(12.0).view(3, 4)
    assert (extent_of(whole.t()), packed(whole.t()).tolist()) == (12, whole.view(-1).tolist())
    assert (extent_of(whole[1:]), packed(whole[1:]).tolist()) == (8, [4, 5, 6, 7, 8, 9, 10, 11])
    # Of 2 columns 3 x 2 elements go, though 1 + 2 * 4 + 1 lie between the first and the last.
    assert (extent_of(whole[:, :2]), packed(whole[:, :2]).tolist()) == (10, [0, 1, 4, 5, 8, 9])
    # One element that stands for twelve goes once.
    assert (extent_of(torch.ones(1).expand(3, 4)), packed(torch.ones(1).expand(3, 4)).tolist()) == (1, [1])
    assert extent_of(torch.empty(0, 3)) == 0
