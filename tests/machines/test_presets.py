"""The presets: complete, sourced, and in the order hardware came out."""

from pathlib import Path

import pytest

from placewright.machines.presets import DevicePreset, LinkPreset, find_link, find_preset, list_links, list_presets
from placewright.support.errors import InputError

DOCS = Path(__file__).parents[2] / "docs" / "machines.md"


@pytest.mark.parametrize("preset", list_presets(), ids=lambda preset: preset.name)
def test_every_device_has_a_source_and_links_that_exist(preset: DevicePreset) -> None:
    assert preset.source
    assert preset.description
    for name in filter(None, (preset.link, preset.nvlink, preset.pcie)):
        assert find_link(name).source
    assert preset.family in ("gpu", "tpu") or not preset.pcie


@pytest.mark.parametrize("preset", list_presets(), ids=lambda preset: preset.name)
def test_every_device_but_the_ideal_one_has_rates_and_memory(preset: DevicePreset) -> None:
    device = preset.device
    if preset.name == "ideal":
        assert (device.memory_bytes, device.peak_flops_per_s) == (None, {})
        assert (device.launch_overhead_ns, device.kernel_gap_ns, device.launches_itself) == (0, 0, False)
        return
    assert device.memory_bytes is not None
    assert device.memory_bandwidth_bytes_per_s is not None
    assert device.peak_flops_per_s["default"] == device.peak_flops_per_s["float32"]
    times = (device.launch_overhead_ns, device.kernel_gap_ns, device.launches_itself)
    assert times == {"cpu": (8000, 0, True), "tpu": (0, 1000, False)}.get(preset.family, (5000, 1500, False))


def test_tensor_core_rates_are_dense() -> None:
    # H100 SXM data sheet: 1,979 TFLOPS in bfloat16 "with sparsity", so 989.5 without; float8 twice that.
    peaks = find_preset("h100").device.peak_flops_per_s
    assert peaks["bfloat16"] == pytest.approx(1979e12 / 2, rel=1e-3)
    assert peaks["float8"] == pytest.approx(2 * peaks["bfloat16"], rel=1e-3)
    assert peaks["tfloat32"] == pytest.approx(peaks["bfloat16"] / 2, rel=1e-3)


def test_a_free_link_costs_nothing() -> None:
    assert find_link("free").link.transfer_time_ns(10**12) == 0


def test_names_and_aliases_are_distinct_and_found_in_any_case() -> None:
    names = [name for preset in list_presets() for name in (preset.name, *preset.aliases)]
    assert len(names) == len(set(names))
    assert find_preset("H100-SXM") is find_preset("h100")


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"unknown device 'h10'; did you mean h100\? If not, describe it in a devices\.toml"
    ):
        find_preset("h10")
    with pytest.raises(InputError, match="unknown link 'nvlnk'; did you mean nvlink"):
        find_link("nvlnk")
    with pytest.raises(InputError, match=r"known are k80, p100, p100-sxm.*; describe it in a devices.toml \(docs/mach"):
        find_preset("zzz")


RATES = ("float64", "float32", "tfloat32", "float16", "bfloat16", "float8", "int8")


def device_row(preset: DevicePreset) -> str:
    """The preset's row of the manual's table."""
    device = preset.device
    memory = "" if device.memory_bytes is None else f"{device.memory_bytes / 2**20:.0f} MiB"
    bandwidth = f"{device.memory_bandwidth_bytes_per_s / 1e9:g}" if device.memory_bandwidth_bytes_per_s else ""
    peaks = [
        f"{device.peak_flops_per_s[dtype] / 1e12:g}" if dtype in device.peak_flops_per_s else "" for dtype in RATES
    ]
    cells = [f"`{preset.name}`", ", ".join(preset.aliases), memory, bandwidth, *peaks, preset.link]
    return f"| {' | '.join(cells)} |"


def link_row(preset: LinkPreset) -> str:
    rate = preset.link.bandwidth_bytes_per_s
    bandwidth = "infinite" if rate is None else f"{rate / 1e9:g}"
    latency = f"{preset.link.latency_ns / 1000:g} us"
    return f"| `{preset.name}` | {bandwidth} | {latency} | {preset.description} |"


def test_the_manual_has_the_row_of_every_device_and_every_link() -> None:
    manual = DOCS.read_text(encoding="utf-8").splitlines()
    rows = [*map(device_row, list_presets()), *map(link_row, list_links())]
    assert [row for row in rows if row not in manual] == []


def test_an_eighth_of_a_board_and_half_a_card_are_what_programs_see() -> None:
    """HGX B200: 36 PFLOPS in bfloat16 with sparsity for eight, so 2.25 each without. MI250X: 383 TFLOPS in two dies."""
    assert find_preset("b200").device.peak_flops_per_s["bfloat16"] == 36e15 / 8 / 2
    assert find_preset("mi250x").device.peak_flops_per_s["bfloat16"] == 383e12 / 2


def test_a_cpu_reaches_less_of_its_peak_than_a_gpu_and_dispatches_more_slowly() -> None:
    cpu, gpu = find_preset("cpu").device, find_preset("h100").device
    assert cpu.compute_efficiency < gpu.compute_efficiency
    assert cpu.bandwidth_efficiency < gpu.bandwidth_efficiency
    assert cpu.launch_overhead_ns > gpu.launch_overhead_ns
