"""What can go wrong on devices of one process: one sentence, no thread left behind, and a module that works on."""

import copy
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
from torch_modules import Branches, calls
from waiting import PATIENCE_S

import placewright
from placewright.execution.channels import Channels
from placewright.execution.devices import available_cores
from placewright.execution.workers import Workers

pytestmark = pytest.mark.skipif(len(available_cores()) < 2, reason="two CPU devices need a core each")


def threads() -> int:
    gc.collect()
    return sum(thread.name == "placewright device" for thread in threading.enumerate())


def on_one_thread(model: nn.Module, args: tuple[Any, ...]) -> Any:
    """What the module returns where it has as many threads as each device of one core; on some processors more of them
    make other last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return model(*args)
    finally:
        torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threads()
    yield
    assert threads() == before


@pytest.fixture
def acting() -> Iterator[tuple[Any, torch.Tensor]]:
    torch.manual_seed(3)
    x = torch.randn(4, 8)
    with placewright.compile(Acts(), x, devices="cpu:0,cpu:1", solver="list", pins={"act": 1, "before": 0}) as compiled:
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


def test_a_module_that_is_moved_or_loses_a_parameter_is_named() -> None:
    model, args, _ = calls()["branches"]()
    with placewright.compile(model, args, devices="cpu:0,cpu:1", solver="list") as compiled:
        expected = compiled(*args)["sum"]
        model.double()
        with pytest.raises(placewright.InputError, match=r"'left.0.weight' is now float64\[32, 16\], and the plan was"):
            compiled(*args)
        model.float()
        kept = model.left[0].bias
        model.left[0].bias = None
        with torch.no_grad():
            assert torch.equal(compiled(*args)["sum"], on_one_thread(model.eval(), args)["sum"]), (
                "a layer without a bias"
            )
        model.left[0].bias = nn.Parameter(kept.detach().to("meta"))
        with pytest.raises(placewright.InputError, match=r"left.0.bias is on the device meta"):
            compiled(*args)
        model.left[0].bias = kept
        assert torch.equal(compiled(*args)["sum"], expected)


def test_what_is_on_another_device_is_named() -> None:
    with pytest.raises(placewright.InputError, match=r"left.0.weight is on the device meta, and the plan runs on CPU"):
        placewright.compile(Branches().to("meta"), torch.zeros(2, 16), devices="cpu:0")
    with (
        placewright.compile(Branches(), torch.zeros(2, 16), devices="cpu:0") as compiled,
        pytest.raises(placewright.InputError, match="argument 0 is on the device meta"),
    ):
        compiled(torch.zeros(2, 16, device="meta"))


def test_a_plan_for_another_module_is_refused() -> None:
    x = torch.zeros(2, 16)
    with placewright.compile(Branches(), x, devices="cpu:0,cpu:1") as compiled:
        plan = compiled.plan
    with pytest.raises(
        placewright.InputError, match=r"the plan is not a plan for .Linear.: 9 ops of the plan are not in"
    ):
        placewright.compile(nn.Linear(16, 2), x, devices="cpu:0,cpu:1", plan=plan)
    with pytest.raises(placewright.InputError, match="the plan is for 2 devices, and devices names 1"):
        placewright.compile(Branches(), x, devices="cpu:0", plan=plan)


def test_cores_that_vanish_are_named() -> None:
    """Core 1,023 is one that no machine of today's tests has."""
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


def test_two_threads_may_bring_other_shapes_at_once() -> None:
    model, _, _ = calls()["branches"]()
    reference = copy.deepcopy(model).eval()
    with placewright.compile(model, torch.zeros(2, 16), devices="cpu:0,cpu:1", solver="list") as compiled:
        found: dict[int, torch.Tensor] = {}

        def call(rows: int) -> None:
            found[rows] = compiled(torch.ones(rows, 16))["sum"]

        callers = [threading.Thread(target=call, args=(rows,)) for rows in (3, 4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    with torch.no_grad():
        for rows in (3, 4):
            assert torch.allclose(found[rows], reference(torch.ones(rows, 16))["sum"], atol=1e-6)


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
