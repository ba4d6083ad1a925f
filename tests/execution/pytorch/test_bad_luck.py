"""Failures on devices of one process: each gives one sentence, leaves no thread behind, and the module works on."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from acts import Acts, todo
from torch import nn
from torch_modules import Branches
from waiting import PATIENCE_S

import placewright
from placewright.execution.channels import Channels
from placewright.execution.devices import available_cores
from placewright.execution.workers import Workers

pytestmark = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")


def threads() -> int:
    gc.collect()
    return sum(thread.name == "placewright device" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threads()
    yield
    assert threads() == before


@pytest.fixture
def acting() -> Iterator[tuple[Any, torch.Tensor]]:
    torch.manual_seed(3)
    x = torch.randn(4, 8)
    with placewright.compile(Acts(), x, devices="cpu:0,cpu:1", solver="list", pins={"act*": 1}) as compiled:
        yield compiled, x


def out_of_memory() -> None:
    torch.empty(2**60)


def exits() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("what", "raised"), [(out_of_memory, "can't allocate memory"), (exits, "3")], ids=["out of memory", "exit"]
)
def test_an_op_that_fails_half_way_leaves_the_other_device_and_the_module_well(
    acting: tuple[Any, torch.Tensor], what: Callable[[], None], raised: str
) -> None:
    compiled, x = acting
    expected = compiled(x)
    todo[:] = [what]
    with pytest.raises((RuntimeError, SystemExit), match=raised):
        compiled(x)
    assert torch.equal(compiled(x), expected)


def on_meta(model: nn.Module) -> None:
    model.left[0].bias = nn.Parameter(torch.zeros(32, device="meta"))


@pytest.mark.parametrize("at_first", [False, True])
@pytest.mark.parametrize("change", [on_meta, lambda model: model.to("meta")])
def test_what_is_on_another_device_is_refused(change: Callable[[nn.Module], Any], at_first: bool) -> None:
    model, x = Branches(), torch.zeros(2, 16)
    if at_first:
        change(model)
        with pytest.raises(placewright.InputError, match=r"[Tt]ensor device mismatch|is on the device meta"):
            placewright.compile(model, x, devices="cpu:0")
        return
    with placewright.compile(model, x, devices="cpu:0") as compiled:
        with pytest.raises(placewright.InputError, match=r"device mismatch|is on the device meta"):
            compiled(x.to("meta"))
        compiled(x)
        change(model)
        with pytest.raises(placewright.InputError, match=r"device mismatch|is on the device meta"):
            compiled(x)


def test_a_plan_for_another_module_is_refused() -> None:
    x = torch.zeros(2, 16)
    with placewright.compile(Branches(), x, devices="cpu:0,cpu:1") as compiled:
        plan = compiled.plan
    with pytest.raises(
        placewright.InputError, match=r"the plan (of 'Branches' is for another module|is not a plan for .Linear.)"
    ):
        placewright.compile(nn.Linear(16, 2), x, devices="cpu:0,cpu:1", plan=plan)
    with pytest.raises(placewright.InputError, match="the plan is for 2 devices, and devices names 1"):
        placewright.compile(Branches(), x, devices="cpu:0", plan=plan)


def test_cores_that_vanish_are_named() -> None:
    """No machine that runs these tests today has core 1,023."""
    for cores in ([frozenset({1023})], [frozenset(available_cores()[:1]), frozenset({1023})]):
        with pytest.raises(placewright.InputError, match=r"a device's cores \(1023\) are not there for this process"):
            Workers(cores)


def test_cores_that_vanish_between_two_runs_are_named_and_may_come_back() -> None:
    cores = [frozenset(available_cores()[:1])]
    workers = Workers(cores)
    workers.close()
    workers._cores = [frozenset({1023})]
    for _ in range(2):
        with pytest.raises(placewright.InputError, match="are not there for this process"):
            workers.run([lambda: None], lambda: None)
    workers._cores = cores
    workers.run([lambda: None], lambda: None)
    workers.close()


def test_a_process_that_may_have_no_more_threads_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def one_only(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", one_only)
    with pytest.raises(placewright.InputError, match="this process may not have a thread more"):
        Workers([frozenset(available_cores()[:1])] * 2)
    assert not started[0].is_alive()


def test_devices_that_stop_at_once_do_not_trip_over_each_other() -> None:
    """Each releases the locks of all channels, which only one of them can do."""
    for _ in range(50):
        channels = Channels(200)
        failed: list[BaseException] = []

        def stop(channels: Channels = channels, failed: list[BaseException] = failed) -> None:
            try:
                channels.stop()
            except BaseException as error:
                failed.append(error)

        stopping = [threading.Thread(target=stop) for _ in range(4)]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        assert not failed


def test_a_forked_process_runs_and_ends_on_its_own(tmp_path: Path) -> None:
    with placewright.compile(Acts(), torch.zeros(4, 8), devices="cpu:0,cpu:1", solver="list") as compiled:
        expected = compiled(torch.zeros(4, 8))
        child = os.fork()
        if child == 0:
            torch.save(compiled(torch.zeros(4, 8)), tmp_path / "result.pt")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert torch.equal(torch.load(tmp_path / "result.pt"), expected)


ONE_RUN = """
import sys
import torch
import placewright
from torch_modules import calls

model, args, _ = calls()["branches"]()
with placewright.compile(model, args, devices="cpu:0,cpu:1", solver="list") as compiled:
    print("ready", flush=True)
    sys.stdin.readline()
    results = [compiled(*args)["sum"] for _ in range(200)]
assert all(torch.equal(result, results[0]) for result in results)
print(results[0].tolist())
"""


def test_two_processes_may_run_plans_on_the_same_cores_at_once() -> None:
    """Their threads are pinned to the same two cores, and take turns there; neither waits for the other, nor errs."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", ONE_RUN],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for run in runs:
            assert run.stdout is not None
            assert run.stdout.readline() == "ready\n"
        for run in runs:
            assert run.stdin is not None
            run.stdin.write("go\n")
            run.stdin.flush()
        told = [run.communicate(timeout=PATIENCE_S) for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [0, 0], told
    assert told[0][0] == told[1][0]
