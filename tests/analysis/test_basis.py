"""Every time says that it is predicted, and from what."""

from dataclasses import replace

import pytest

import placewright
from placewright.analysis.basis import basis_words, launch_words
from placewright.costs.estimate import TimeSources
from placewright.graph import Graph, Op, Tensor
from placewright.machine import Device, Link, Machine
from placewright.machines import load_machine


def sources(stated: int = 0, measured: int = 0, roofline: int = 0, guessed: int = 0) -> TimeSources:
    return TimeSources(stated=stated, measured=measured, roofline=roofline, guessed=guessed)


def device(name: str, compute: float, launch_ns: int) -> Device:
    return Device(
        name=name,
        kind=name[:-1],
        peak_flops_per_s={"default": 1e12},
        memory_bandwidth_bytes_per_s=1e11,
        launch_overhead_ns=launch_ns,
        compute_efficiency=compute,
        bandwidth_efficiency=0.8,
    )


def machine(*devices: Device) -> Machine:
    return Machine(name="m", devices=devices, links=((Link(),) * len(devices),) * len(devices))


GPU = device("gpu0", 0.7, 5_000)
RATES = "70% of peak FLOP/s and 80% of bandwidth, 5 us per launch"
HOST = "launched by one host thread"


@pytest.mark.parametrize(
    ("counted", "words"),
    [
        (sources(roofline=1455), f"predicted: roofline at {RATES}"),
        (
            sources(measured=120, roofline=1335),
            f"predicted: measured times for 120 of 1,455 ops, roofline for the rest at {RATES}",
        ),
        (sources(measured=7), "predicted: measured times for all ops"),
        (sources(stated=31), "predicted: times stated in the graph"),
        (sources(stated=30, measured=1), "predicted: measured times for 1 of 31 ops, times stated in the graph for 30"),
        (
            sources(roofline=9, guessed=2),
            f"predicted: roofline at {RATES}; FLOPs of 2 unknown, where bytes alone count",
        ),
        (sources(guessed=2), f"predicted: roofline at {RATES}; FLOPs unknown, so bytes alone count"),
        (sources(), "predicted: no op takes time"),
        (None, "predicted; the plan does not say whether times were measured"),
    ],
)
def test_the_line_says_where_times_come_from(counted: TimeSources | None, words: str) -> None:
    launched = "" if words.endswith("takes time") else f"; {HOST}"
    if counted is not None and counted.stated:
        launched += ", added on top"
    assert basis_words(counted, machine(GPU)) == words + launched


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        ("host-thread", f"{RATES}; {HOST}"),
        ("device-threads", f"{RATES}; launched by a host thread per device"),
        ("graphs", f"{RATES.replace('5 us per launch', '1.5 us between kernels')}; launched as recorded graphs"),
    ],
)
def test_the_line_says_who_launches(launch: str, words: str) -> None:
    assert basis_words(sources(roofline=1), load_machine(f"2xh100@{launch}")) == f"predicted: roofline at {words}"


def test_recorded_graphs_and_free_launches_add_nothing_to_stated_times() -> None:
    for name, launched in (("2xh100@graphs", "; launched as recorded graphs"), ("2xideal/free", "")):
        assert basis_words(sources(stated=1), load_machine(name)) == f"predicted: times stated in the graph{launched}"


def test_nobody_else_launches_what_launches_itself_or_costs_nothing() -> None:
    assert launch_words(load_machine("2xcpu")) == launch_words(load_machine("2xideal/free")) == ""
    assert launch_words(load_machine("cpu+h100")) == HOST


def test_the_line_tells_the_rates_of_devices_that_differ_from_most() -> None:
    mixed = machine(device("cpu0", 0.5, 1_500), GPU, replace(GPU, name="gpu1"))
    told = f"predicted: roofline at {RATES} (cpu: 50%, 80%, 1.5 us per launch); {HOST}"
    assert basis_words(sources(roofline=3), mixed) == told
    one_of_each = machine(device("cpu0", 0.5, 1_500), GPU)
    assert basis_words(sources(roofline=3), one_of_each) == told
    many = machine(*(device(f"kind{letter}0", 0.1 + 0.1 * number, 0) for number, letter in enumerate("abcdef")))
    told = "(kindb: 20%, 80%, 0 ns per launch; kindc: 30%, 80%, 0 ns per launch; others differ)"
    assert basis_words(sources(roofline=3), many).endswith(f"0 ns per launch {told}")


def test_a_plan_counts_its_ops_by_the_device_they_run_on(tmp_path: object) -> None:
    """An input, an op with a stated time, one with a formula, one without, and a view, which takes no time.

    The measured time of `fill` holds on the T4 alone, so it counts only in a plan that runs it there.
    """
    tensors = [Tensor(name=f"t{i}", size_bytes=4, shape=(1,), dtype="float32") for i in range(4)]
    ops = (
        Op(name="x", kind="input", outputs=(0,)),
        Op(name="stated", kind="other", inputs=(0,), outputs=(1,), time_ns=7),
        Op(name="fill", kind="fill", outputs=(2,)),
        Op(name="odd", kind="other", inputs=(1, 2), outputs=(3,)),
        Op(name="look", kind="view", inputs=(3,), outputs=(4,)),
    )
    view = Tensor(name="t4", size_bytes=4, alias_of=3)
    graph = Graph(name="mixed", ops=ops, tensors=(*tensors, view))
    path = f"{tmp_path}/times.csv"
    with open(path, "w") as file:
        file.write("op,device,time_us\nfill,t4,7\n")

    def counted(place: str) -> TimeSources | None:
        return placewright.plan(graph, "t4+p100", pins={"*": place}, measured=path, evaluations=1).time_sources

    assert counted("gpu0") == sources(stated=1, measured=1, guessed=1)
    assert counted("gpu1") == sources(stated=1, roofline=1, guessed=1)
