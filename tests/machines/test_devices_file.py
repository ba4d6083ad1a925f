"""devices.toml: what it can say, and what it answers to mistakes."""

import os
from pathlib import Path

import pytest

from placewright.machine import Link, Machine
from placewright.machines import load_machine
from placewright.machines.presets import find_link, find_preset
from placewright.support.errors import InputError

TWO = '[[devices]]\npreset = "v100"\ncount = 2\n'
FOUR = '[[devices]]\npreset = "v100"\ncount = 4\n'


def read(tmp_path: Path, text: str) -> Machine:
    path = tmp_path / "devices.toml"
    path.write_text(text, encoding="utf-8")
    return load_machine(path)


def test_presets_with_overrides_keep_what_is_not_overridden(tmp_path: Path) -> None:
    machine = read(
        tmp_path,
        """
        name = "office"
        transfers = "blocking"
        launch = "device-threads"
        [[devices]]
        preset = "a100-80g"
        kernel_gap = "2us"
        count = 2
        memory = "70GiB"
        peak_flops = { float32 = 156e12 }
        [[devices]]
        preset = "cpu"
        name = "host"
        launch_overhead = "2us"
        """,
    )
    assert (machine.name, machine.transfer_model) == ("office", "blocking")
    assert [device.name for device in machine.devices] == ["gpu0", "gpu1", "host"]
    first, preset = machine.devices[0], find_preset("a100-80g").device
    assert first.memory_bytes == 70 * 2**30
    assert first.peak_flops_per_s == {**preset.peak_flops_per_s, "float32": 156e12}
    assert first.memory_bandwidth_bytes_per_s == preset.memory_bandwidth_bytes_per_s
    assert machine.devices[2].launch_overhead_ns == 2000
    assert (machine.launch, first.kernel_gap_ns, machine.devices[2].launches_itself) == ("device-threads", 2000, True)
    assert machine.hosts == (0, 1, -1)
    assert machine.links[0][1] == find_link("nvlink3").link  # no [links]: as on the command line
    assert machine.links[0][2] == find_link("pcie4").link


def test_a_default_peak_replaces_what_the_preset_has(tmp_path: Path) -> None:
    """Otherwise a dtype that the table does not list would keep the preset's rate, as float32 would here."""
    given = "peak_flops = { default = 29e12, float16 = 58e12 }"
    machine = read(tmp_path, f'[[devices]]\npreset = "rtx4090"\n{given}\n')
    assert machine.devices[0].peak_flops_per_s == {"default": 29e12, "float16": 58e12}


def test_what_is_changed_of_a_preset_has_the_name_of_the_file(tmp_path: Path) -> None:
    tables = ['name = "rtx4070"\nmemory = "12GiB"', 'name = "left"', 'memory = "12GiB"', 'name = "a"\nkind = "mine"']
    machine = read(tmp_path, "".join(f'[[devices]]\npreset = "rtx4090"\n{table}\n' for table in tables))
    assert [device.kind for device in machine.devices] == ["rtx4070", "rtx4090", "rtx4090", "mine"]


def test_a_device_of_ones_own_needs_no_preset(tmp_path: Path) -> None:
    machine = read(
        tmp_path,
        """
        [[devices]]
        kind = "npu"
        name = "left"
        count = 2
        memory = "8GB"
        bandwidth = "100GB/s"
        peak_flops = { default = 4e12 }
        compute_efficiency = 0.5
        [links]
        topology = "all-to-all"
        link = { bandwidth = "8GB/s", latency = "3us" }
        """,
    )
    assert [device.name for device in machine.devices] == ["left0", "left1"]
    assert machine.devices[1].kind == "npu"
    assert machine.devices[1].compute_efficiency == 0.5
    assert machine.links[1][0] == Link(bandwidth_bytes_per_s=8e9, latency_ns=3000)
    assert machine.name == "devices"


def test_a_ring_passes_through_the_devices_between(tmp_path: Path) -> None:
    link = '[links]\ntopology = "ring"\nlink = { bandwidth = "12GB/s", latency = "1us" }'
    links = read(tmp_path, FOUR + link).links
    assert links[0][1] == links[3][0] == links[1][0] == Link(bandwidth_bytes_per_s=12e9, latency_ns=1000)
    # 0 -> 2 is two hops: each byte takes 2/12 ns, each hop 1 us
    assert links[0][2] == Link(bandwidth_bytes_per_s=6e9, latency_ns=2000)


def test_through_the_host_every_byte_crosses_pcie_twice(tmp_path: Path) -> None:
    machine = read(tmp_path, '[[devices]]\npreset = "cpu"\n' + TWO + '[links]\ntopology = "host"')
    # pcie3: 12 GB/s and 10 us; from GPU to GPU up and down again, from the CPU only down
    assert machine.links[1][2] == Link(bandwidth_bytes_per_s=6e9, latency_ns=20_000)
    assert machine.links[0][1] == find_link("pcie3").link


def test_nodes_have_one_link_inside_and_another_between(tmp_path: Path) -> None:
    links = read(
        tmp_path, FOUR + '[links]\ntopology = "nodes"\ngroups = [["gpu0", "gpu1"], ["gpu2", "gpu3"]]\ninter = "100g"'
    ).links
    assert links[0][1] == links[3][2] == find_link("nvlink2").link
    assert links[0][2] == links[3][1] == find_link("100g").link


def test_matrices_may_be_asymmetric_and_infinite(tmp_path: Path) -> None:
    links = read(
        tmp_path, TWO + '[links]\nbandwidth = [["inf", "25GB/s"], ["inf", "inf"]]\nlatency = [[0, "5us"], [0, 0]]'
    ).links
    assert links[0][1] == Link(bandwidth_bytes_per_s=25e9, latency_ns=5000)
    assert links[1][0] == Link()


def test_one_bandwidth_and_one_latency_stand_for_all_pairs(tmp_path: Path) -> None:
    links = read(tmp_path, FOUR + '[links]\nbandwidth = "25GB/s"\nlatency = "5us"').links
    assert {links[i][j] for i in range(4) for j in range(4) if i != j} == {
        Link(bandwidth_bytes_per_s=25e9, latency_ns=5000)
    }


def test_free_links_mean_blocking_transfers_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    free = TWO + '[links]\ntopology = "all-to-all"\nlink = "free"'
    assert read(tmp_path, free).transfer_model == "blocking"
    assert read(tmp_path, 'transfers = "overlapped"\n' + free).transfer_model == "overlapped"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("devices = 3", "devices must be a list, not 3"),
        ("name = 'x'", "devices is missing"),
        ("devices = []", "has 0 devices"),
        ("devices = [1]", r"devices\[0\]: 1 is not a table"),
        ("[[devices]\npreset", "line 1"),
        ("[[devices]]\npreset = 'v10'", r"devices\[0\]: preset: unknown device 'v10'; did you mean v100"),
        ("[[devices]]\npreset = 'v100'\nmemmory = '1GB'", r"devices\[0\]: unknown key 'memmory'; did you mean memory"),
        ("[[devices]]\npreset = 'v100'\nmemory = 16", r"devices\[0\]: memory must be a size like \"80GiB\", not 16"),
        ("[[devices]]\npreset = 'v100'\nmemory = '-16GB'", r"memory: size '-16GB' is not understood"),
        ("[[devices]]\npreset = 'v100'\nmemory = '0GB'", "impossible memory of 0 bytes"),
        ("[[devices]]\npreset = 'v100'\ncount = 0", "count is 0, which is less than 1"),
        ("[[devices]]\npreset = 'v100'\ncount = true", "count must be a whole number, not True"),
        ("[[devices]]\npreset = 'v100'\ncount = 1000000000", "1 to 64"),
        ("[[devices]]\npreset = 'v100'\ncompute_efficiency = 1.5", "efficiency of 1.5"),
        ("[[devices]]\npreset = 'v100'\npeak_flops = { float32 = -1.0 }", "not a positive finite number"),
        ("[[devices]]\npreset = 'v100'\npeak_flops = { float32 = '1' }", "peak_flops must be a table of numbers"),
        ("[[devices]]\nkind = 'npu'\npeak_flops = { default = 1e12 }", "peak_flops and bandwidth belong together"),
        (
            "[[devices]]\npreset = 'v100'\npeak_flops = { flot32 = 1e12 }",
            r"devices\[0\]: peak_flops has the unknown dtype 'flot32'; did you mean float32",
        ),
        ("[[devices]]\npreset = 'v100'\npeak_flops = { default = 1" + "0" * 400 + " }", "must be a table of numbers"),
        ("[[devices]]\npreset = 'v100'\ncount = 1" + "0" * 5000, "a whole number of thousands of digits"),
        ("[[devices]]\npreset = 'v100'\nname = '1'", "a device is named '1', which reads as its number"),
        (TWO + "[links]\nbandwidth = [['-1', '1GB/s'], ['1GB/s', '-']]", r"bandwidth\[0\]\[0\] is '-1'"),
        (TWO + "[links]\nbandwidth = '1GB/s'\nlatency = [[0, '5us'], ['5us', -1]]", r"latency\[1\]\[1\] is -1"),
        ("[[devices]]\nkind = 'npu'\ncount = 2", "links: device 'npu' has no known link"),
        ("[[devices]]\npreset = 'v100'\nname = 'a'\n[[devices]]\npreset = 't4'\nname = 'a'", "two devices of one name"),
        ("transfers = 'blocked'\n" + TWO, "transfers is 'blocked'; did you mean blocking"),
        ("link = 'pcie3'\n" + TWO, "unknown key 'link'; did you mean links"),
        (TWO + "[links]\ntopology = 'rings'", "links: topology is 'rings'; did you mean ring"),
        (TWO + "[links]\ntopology = 'all-to-all'\nlink = 'pci3'", "links: unknown link 'pci3'; did you mean pcie3"),
        (
            TWO + "[links]\ntopology = 'ring'\nlink = { bandwith = '1GB/s' }",
            "link: unknown key 'bandwith'; did you mean",
        ),
        (TWO + "[links]\ntopology = 'ring'\ngroups = []", "links: unknown key 'groups'"),
        (TWO + "[links]\ntopology = 'nodes'\ngroups = [['gpu0', 'gpu1']]", "links: inter is missing"),
        (TWO + "[links]\ntopology = 'nodes'\ninter = '100g'\ngroups = [['gpu0']]", "'gpu1' is in none of the groups"),
        (TWO + "[links]\ntopology = 'nodes'\ninter = '100g'\ngroups = [['gpu7']]", "groups names 'gpu7'"),
        (TWO + "[links]\ntopology = 'nodes'\ninter = '100g'\ngroups = [['gpu0', 'gpu0']]", "'gpu0' twice"),
        (TWO + "[links]\nlatency = '5us'", r"links: topology \(or bandwidth\) is missing"),
        (TWO + "[links]\nbandwidth = [['inf']]", "links: bandwidth must have 2 rows of 2 values"),
        (TWO + "[links]\nbandwidth = 25", 'bandwidth must be like "25GB/s" or "inf", not 25'),
        (TWO + "[links]\nbandwidth = '0B/s'", "less than one byte per second"),
        (TWO + "[links]\nbandwidth = '1GB/s'\nlatency = 5", 'latency must be like "5us" or 0, not 5'),
        (TWO + "[links]\nbandwidth = '1GB/s'\nlatency = '-5us'", "'-5us' is not understood"),
    ],
)
def test_every_mistake_is_one_sentence_with_file_and_place(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "devices.toml"))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "devices.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"devices\.toml"):
        load_machine(path)


LITERALS = ["1", "-1", "0.5", "nan", "inf", "true", "''", "'x'", "'1GB'"]
LITERALS += ["[]", "[[]]", "[[1, 2], [3, 4]]", "{}", "1979-05-27"]
TOP_KEYS = ["name", "transfers", "links"]
DEVICE_KEYS = ["preset", "count", "name", "kind", "memory", "bandwidth", "peak_flops", "launch_overhead"]
LINK_KEYS = ["link", "inter", "intra", "groups", "bandwidth", "latency", "topology"]


@pytest.mark.parametrize("literal", LITERALS)
def test_no_value_anywhere_does_worse_than_an_input_error(tmp_path: Path, literal: str) -> None:
    texts = [f"{key} = {literal}\n{TWO}" for key in TOP_KEYS]
    texts += [
        f"[[devices]]\n{key} = {literal}\n" for key in [*DEVICE_KEYS, "compute_efficiency", "bandwidth_efficiency"]
    ]
    for topology in ("all-to-all", "ring", "host", "nodes"):
        texts += [f"{TWO}[links]\ntopology = '{topology}'\n{key} = {literal}\n" for key in LINK_KEYS[:-1]]
    texts += [f"{TWO}[links]\n{key} = {literal}\n" for key in LINK_KEYS]
    outcomes = []
    for text in texts:
        try:
            outcomes.append(read(tmp_path, text).num_devices)
        except InputError:
            outcomes.append(0)
    assert 0 in outcomes


def test_a_pipe_is_no_machine(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "devices.toml")
    with pytest.raises(InputError, match=r"cannot read '.*devices.toml': it exists and is not a regular file"):
        load_machine(tmp_path / "devices.toml")


def test_the_diagonal_of_a_matrix_may_be_a_dash(tmp_path: Path) -> None:
    links = read(tmp_path, TWO + '[links]\nbandwidth = [["-", "25GB/s"], ["1GB/s", "-"]]').links
    assert links[1][0] == Link(bandwidth_bytes_per_s=1e9)
