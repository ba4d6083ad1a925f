"""The report in a real browser: what a person does with it works, and nothing is logged or requested (conftest)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from plans import MIB, Node, layered_plan, machine_of, plan_of, small_plan
from runs import slow_run

from placewright.plans.record import MemoryCurve, Plan

OpenReport = Callable[..., Any]


@pytest.fixture(scope="module")
def large_plan() -> Plan:
    return layered_plan(10_000, 4, memory_bytes=16 * 2**30)


def shown_span(page: Any) -> tuple[int, int]:
    """Nanoseconds at the left and right edge of the timeline, once the frame in progress is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    viewport = page.locator("#viewport")
    return int(viewport.get_attribute("data-from")), int(viewport.get_attribute("data-to"))


def point_at(page: Any, share: float, y: float) -> tuple[float, float]:
    """Page coordinates of a share of the plot's width and a distance from the top of the timeline."""
    page.locator("#viewport").scroll_into_view_if_needed()
    box = page.locator("#timeline").bounding_box()
    return box["x"] + 150 + share * (box["width"] - 162), box["y"] + y


COMPUTE_LANE = 45  # inside the first device's lane


def colour_at(page: Any, canvas: str, x: int, y: int) -> Any:
    return page.evaluate(
        """([canvas, x, y]) => {
            const one = new OffscreenCanvas(1, 1).getContext('2d');
            one.drawImage(document.querySelector(canvas), x, y, 1, 1, 0, 0, 1, 1);
            return [...one.getImageData(0, 0, 1, 1).data];
        }""",
        [canvas, x, y],
    )


MEASURED_LANE = 78  # inside the lane below it


# --- the timeline ----------------------------------------------------------------------------------------------------


def test_pointing_at_a_slice_tells_its_name_kind_module_source_and_bytes(open_report: OpenReport) -> None:
    """b runs on gpu0 from 10 to 30 of 228.8 us: its middle is at 8.7% of the width."""
    page = open_report(small_plan())
    page.mouse.move(*point_at(page, 0.087, COMPUTE_LANE))
    text = page.locator("#tooltip").inner_text()
    for told in ("b", "matmul", "encoder.second", "gpu0", "20.0 us", "1.00 MiB"):
        assert told in text


def test_below_a_device_stands_what_was_measured_on_the_same_axis(open_report: OpenReport) -> None:
    """The run is twice as slow: b ran from 20 to 60 of 457.6 us, which is the axis now; the planned b is at half
    that."""
    plan = small_plan()
    page = open_report(plan, run=slow_run(plan))
    assert shown_span(page) == (0, 457_528)
    assert "measured" in page.evaluate("window.drawn")
    page.mouse.move(*point_at(page, 40 / 457.5, MEASURED_LANE))
    measured = page.locator("#tooltip").inner_text()
    page.mouse.move(*point_at(page, 20 / 457.5, COMPUTE_LANE))
    assert page.locator("#tooltip").inner_text() == measured
    for told in ("b", "10.0", "30.0 us", "20.0", "60.0 us"):
        assert told in measured
    page.mouse.click(*point_at(page, 40 / 457.5, MEASURED_LANE))
    assert "b" in page.locator("#details").inner_text()


def launched_plan() -> Plan:
    """The small plan where one host thread launches: 20 us for each of a, its transfer, b, c, c's transfer and d, one
    after another in the plan's order."""
    plan = small_plan()
    devices = tuple(replace(device, launch_overhead_ns=20_000) for device in plan.machine.devices)
    return replace(plan, machine=replace(plan.machine, devices=devices))


HOST_LANE = 40


def test_the_host_has_a_lane_of_its_launches(open_report: OpenReport) -> None:
    """Launches take the first 120 of 228.8 us: 52%."""
    page = open_report(launched_plan())
    assert {"launches", "52%"} <= set(page.evaluate("() => window.drawn"))
    page.mouse.move(*point_at(page, 10 / 228.764, HOST_LANE))
    assert "launch of a" in page.locator("#tooltip").inner_text()
    page.mouse.move(*point_at(page, 110 / 228.764, HOST_LANE))
    assert "launch of d" in page.locator("#tooltip").inner_text()
    assert "launched at\n120 us" in page.locator("#tooltip").inner_text()
    assert "a launch has the colour of its op" in page.locator("#timeline-hint").inner_text()
    page.mouse.click(*point_at(page, 110 / 228.764, HOST_LANE))
    assert "head" in page.locator("#details").inner_text()  # the op, with its module


def test_where_devices_or_graphs_launch_there_is_no_host_lane(open_report: OpenReport) -> None:
    plan = launched_plan()
    for launch in ("device-threads", "graphs"):
        page = open_report(replace(plan, machine=replace(plan.machine, launch=launch)))
        assert "host" not in page.evaluate("() => window.drawn")


def test_pointing_at_a_link_tells_the_transfer(open_report: OpenReport) -> None:
    """a's tensor is on the link from 10 to 99.4 us, just below the first lane."""
    page = open_report(small_plan())
    page.mouse.move(*point_at(page, 0.2, 74))
    text = page.locator("#tooltip").inner_text()
    for told in ("a:0", "gpu0 → gpu1", "1.00 MiB", "encoder.first", "critical path"):
        assert told in text


def test_pointing_at_the_memory_curve_tells_the_bytes_in_use(open_report: OpenReport) -> None:
    """gpu0 holds the weights of a and b, b's output and c's copy at 150 us: 4 MiB."""
    page = open_report(small_plan())
    page.mouse.move(*point_at(page, 150 / 228.764, 110))
    text = page.locator("#tooltip").inner_text()
    assert "memory of gpu0" in text
    assert "4.00 MiB" in text


def test_a_click_pins_a_slice_and_leads_to_what_it_waited_for(open_report: OpenReport) -> None:
    """d waited for c's transfer, which waited for c."""
    page = open_report(small_plan())
    page.mouse.click(*point_at(page, 0.98, COMPUTE_LANE))
    assert page.locator("#details .op-name").inner_text() == "d"
    page.get_by_role("button", name="Waited for c:0").click()
    assert page.locator("#details .op-name").inner_text() == "c:0"
    page.keyboard.press("w")
    assert page.locator("#details .op-name").inner_text() == "c"


def test_keys_and_buttons_zoom_and_move_the_span(open_report: OpenReport) -> None:
    page = open_report(layered_plan(300, 2))
    whole = shown_span(page)
    page.locator("#viewport").focus()
    page.keyboard.press("+")
    page.keyboard.press("+")
    zoomed = shown_span(page)
    assert (zoomed[1] - zoomed[0]) / (whole[1] - whole[0]) == pytest.approx(0.36, abs=0.01)
    page.keyboard.press("ArrowRight")
    moved = shown_span(page)
    assert moved[0] > zoomed[0]
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0], abs=2)
    page.keyboard.press("-")
    assert shown_span(page)[1] - shown_span(page)[0] > moved[1] - moved[0]
    page.click("#zoom-all")
    assert shown_span(page) == whole


def test_the_wheel_scrolls_the_page_until_the_timeline_has_the_focus_and_then_zooms(open_report: OpenReport) -> None:
    page = open_report(layered_plan(300, 2))
    whole = shown_span(page)
    page.mouse.move(*point_at(page, 0.5, COMPUTE_LANE))
    page.mouse.wheel(0, -200)
    assert shown_span(page) == whole
    assert page.locator("#wheel-hint").is_visible()
    page.locator("#viewport").focus()
    page.mouse.move(*point_at(page, 0.5, COMPUTE_LANE))
    page.mouse.wheel(0, -200)
    page.wait_for_selector(f"#viewport:not([data-to='{whole[1]}'])")
    assert shown_span(page)[1] - shown_span(page)[0] < whole[1] - whole[0]


def test_dragging_moves_the_span_and_with_shift_zooms_into_what_was_drawn_over(open_report: OpenReport) -> None:
    page = open_report(layered_plan(300, 2))
    _, end = shown_span(page)
    page.keyboard.down("Shift")
    page.mouse.move(*point_at(page, 0.25, COMPUTE_LANE))
    page.mouse.down()
    page.mouse.move(*point_at(page, 0.75, COMPUTE_LANE), steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    drawn = shown_span(page)
    assert drawn[0] / end == pytest.approx(0.25, abs=0.01)
    assert drawn[1] / end == pytest.approx(0.75, abs=0.01)
    page.mouse.move(*point_at(page, 0.5, COMPUTE_LANE))
    page.mouse.down()
    page.mouse.move(*point_at(page, 0.6, COMPUTE_LANE), steps=4)
    page.mouse.up()
    assert shown_span(page)[0] / end == pytest.approx(0.20, abs=0.01)


def test_the_overview_shows_the_part_that_is_dragged_over(open_report: OpenReport) -> None:
    page = open_report(layered_plan(300, 2))
    _, end = shown_span(page)
    page.locator("#viewport").scroll_into_view_if_needed()
    box = page.locator("#overview").bounding_box()
    plot = box["width"] - 164
    page.mouse.move(box["x"] + 150 + 0.5 * plot, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 150 + 0.6 * plot, box["y"] + 20, steps=4)
    page.mouse.up()
    shown = shown_span(page)
    assert shown[0] / end == pytest.approx(0.5, abs=0.02)
    assert shown[1] / end == pytest.approx(0.6, abs=0.02)


def test_searching_highlights_by_name_or_module_and_enter_goes_to_the_next_match(open_report: OpenReport) -> None:
    """Three of six steps belong to the encoder: a, b and a's transfer."""
    page = open_report(small_plan())
    x, y = (int(v) for v in point_at(page, 0.98, COMPUTE_LANE))
    box = page.locator("#timeline").bounding_box()
    place = int(x - box["x"]), int(y - box["y"])
    plain = colour_at(page, "#timeline", *place)
    page.keyboard.press("/")
    page.keyboard.type("ENCODER")
    assert "3 matches" in page.locator("#matches").inner_text()
    shown_span(page)
    assert colour_at(page, "#timeline", *place) != plain  # d fades
    page.keyboard.press("Enter")
    assert page.locator("#details .op-name").inner_text() == "a"
    page.keyboard.press("Enter")
    assert "2 of 3" in page.locator("#matches").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#matches").inner_text() == ""
    shown_span(page)
    assert page.input_value("#search") == ""


def test_a_search_without_a_match_says_so(open_report: OpenReport) -> None:
    page = open_report(small_plan())
    page.fill("#search", "nothing like this")
    assert page.locator("#matches").inner_text() == "no match"


@pytest.mark.parametrize(
    ("by", "labels"),
    [
        ("kind", ["matrix product", "convolution", "pooling, softmax, reduction"]),
        ("module", ["encoder.first", "encoder.second", "decoder", "head"]),
        ("phase", ["forward", "no phase"]),
    ],
)
def test_slices_are_coloured_by_kind_module_or_phase(open_report: OpenReport, by: str, labels: list[str]) -> None:
    page = open_report(small_plan())
    page.check(f"input[name=colour][value={by}]", force=True)
    legend = page.locator("#legend").inner_text()
    assert all(label in legend for label in labels)


def test_steps_named_in_tables_are_shown_in_the_timeline(open_report: OpenReport) -> None:
    page = open_report(layered_plan(300, 2))
    button = page.locator("section:has(#ops-heading) button.step").first
    name = button.inner_text()
    button.click()
    assert page.locator("#details .op-name").inner_text() == name


def test_comma_and_full_stop_walk_along_a_lane(open_report: OpenReport) -> None:
    page = open_report(small_plan())
    names = []
    for key in (".", ".", ".", ",", "Escape"):
        page.keyboard.press(key)
        names += page.locator("#details .op-name").all_inner_texts()
    assert names == ["a", "b", "d", "b"]


def test_help_opens_with_a_question_mark_and_keys_rest_meanwhile(open_report: OpenReport) -> None:
    page = open_report(small_plan())
    whole = shown_span(page)
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("+")
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()
    assert shown_span(page) == whole


def test_memory_lanes_share_one_scale(open_report: OpenReport) -> None:
    """gpu0 peaks at 5 MiB, gpu1 at 3: in gpu1's lane, 58 pixels from 208 on with 40 of them for 5 MiB, that is 24 from
    the bottom at 265, up to 241. On a scale of its own it would reach up to 225."""
    page = open_report(small_plan())
    x = 170 + (page.locator("#timeline").bounding_box()["width"] - 162) // 2
    lane, filled = colour_at(page, "#timeline", int(x), 236), colour_at(page, "#timeline", int(x), 255)
    assert lane == colour_at(page, "#timeline", int(x), 212)
    assert filled != lane


@pytest.mark.parametrize(
    ("limit", "told", "line"),
    [(8 * MIB, ["limit 8.00 MiB"], True), (16 * MIB, ["limit 16.0 MiB,", "off this scale"], False)],
)
def test_a_limit_is_a_line_in_the_lane_or_said_to_be_off_the_scale(
    open_report: OpenReport, limit: int, told: list[str], line: bool
) -> None:
    """gpu0's lane has 8 MiB at its top, 40 pixels above its bottom at 142; the dashes of that limit are at 102."""
    page = open_report(small_plan(memory_limits_bytes=(limit, limit)))
    texts = page.evaluate("() => window.drawn")
    assert all(text in texts for text in told)
    assert ("off this scale" in texts) == (not line)
    row = [tuple(colour_at(page, "#timeline", x, 102)[:3]) for x in range(500, 520)]
    assert ((179, 38, 30) in row) == line


def test_of_many_changes_of_device_as_many_are_drawn_as_can_be_told_apart(open_report: OpenReport) -> None:
    """200 ops in a chain, every other one elsewhere: 199 changes on some 1,000 pixels, drawn 14 pixels apart."""
    nodes = [Node(name=f"op{i}", inputs=(i - 1,) if i else (), device=i % 2) for i in range(200)]
    page = open_report(plan_of(nodes, machine_of(2)))
    shown_span(page)
    note = page.inner_text("#crossings-note")
    drawn = re.fullmatch(r": (\d+) of 199 changes of device drawn, zoom in for more", note)
    assert drawn is not None, note
    assert 50 <= int(drawn[1]) <= 80
    page.uncheck("#show-links", force=True)
    shown_span(page)
    assert page.inner_text("#crossings-note").endswith(" of 199 changes of device drawn, zoom in for more")
    page.locator("#viewport").focus()
    for _ in range(6):
        page.keyboard.press("+")
    shown_span(page)
    assert page.inner_text("#crossings-note") == ""


def test_memory_before_and_after_is_drawn_on_one_axis_and_told_at_the_pointer(open_report: OpenReport) -> None:
    """Before: 8 MiB from 100,000 to 200,000 ns, over at 300,000; after: 4 MiB at 150,000 ns, over at 228,764."""
    before = MemoryCurve(time_ns=(0, 100_000, 200_000, 300_000), bytes_in_use=(MIB, 8 * MIB, MIB, MIB))
    page = open_report(small_plan(objective="peak-memory", input_order_memory=before))
    assert {"8.00 MiB", "5.00 MiB"} <= set(page.evaluate("() => window.drawn"))
    page.locator("#memory-over-time").scroll_into_view_if_needed()
    box = page.locator("#memory-over-time").bounding_box()
    for time_ns, told in ((150_000, ("8.00 MiB", "4.00 MiB")), (250_000, ("1.00 MiB", "the step is over"))):
        page.mouse.move(box["x"] + 64 + time_ns / 300_000 * (box["width"] - 65), box["y"] + 100)
        assert all(words in page.locator("#tooltip").inner_text() for words in told)


# --- on a phone ------------------------------------------------------------------------------------------------------

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_what_is_touched_is_44_pixels_high(open_report: OpenReport) -> None:
    page = open_report(layered_plan(300, 2, memory_bytes=10 * MIB), **PHONE)
    heights = page.evaluate(
        """() => [...document.querySelectorAll('button, select, summary, input[type=search], .segmented span')]
            .filter((node) => node.offsetParent)
            .map((node) => [node.textContent.trim(), node.getBoundingClientRect().height])"""
    )
    assert len(heights) > 40
    assert [entry for entry in heights if entry[1] < 44] == []


def test_hints_on_a_phone_speak_of_fingers(open_report: OpenReport) -> None:
    page = open_report(small_plan(), **PHONE)
    text = page.inner_text("main")
    assert "two fingers to zoom" in text
    assert "Tap a slice" in text
    assert not re.search(r"Shift|wheel|[Cc]lick|press", text)
    assert page.locator("#help-button").is_hidden()


def test_a_table_wider_than_a_phone_says_so_and_fades_where_it_goes_on(open_report: OpenReport) -> None:
    page = open_report(small_plan(), **PHONE)
    table = page.locator("section:has(#devices-heading) .scroll")
    hint = page.locator("section:has(#devices-heading) .scroll-hint")
    assert hint.is_visible()
    assert "more-right" in table.get_attribute("class")
    assert "transparent" in table.evaluate("(box) => getComputedStyle(box).getPropertyValue('--fade-right')")
    table.evaluate("(box) => { box.scrollLeft = box.scrollWidth }")
    page.wait_for_selector(".scroll.more-left:not(.more-right)")
    wide = open_report(small_plan())
    assert wide.locator("section:has(#devices-heading) .scroll-hint").is_hidden()


def test_two_fingers_on_the_timeline_zoom(open_report: OpenReport) -> None:
    """The fingers move from 100 to 200 pixels apart around the middle: half the span is left, around the same
    middle."""
    page = open_report(small_plan(), **PHONE)
    _, end = shown_span(page)
    page.evaluate(
        """() => {
            const canvas = document.getElementById('timeline');
            canvas.setPointerCapture = () => {};
            const box = canvas.getBoundingClientRect();
            const middle = box.left + 84 + (box.width - 96) / 2;
            const touch = (type, pointerId, x) => canvas.dispatchEvent(new PointerEvent(type,
                {pointerId, pointerType: 'touch', clientX: middle + x, clientY: box.top + 40, bubbles: true}));
            touch('pointerdown', 1, -50);
            touch('pointerdown', 2, 50);
            touch('pointermove', 1, -100);
            touch('pointermove', 2, 100);
            touch('pointerup', 1, -100);
            touch('pointerup', 2, 100);
        }"""
    )
    first, last = shown_span(page)
    assert (last - first) / end == pytest.approx(0.5, abs=0.01)
    assert (first + last) / 2 / end == pytest.approx(0.5, abs=0.01)


# --- the rest of the page --------------------------------------------------------------------------------------------


def test_the_peak_chart_tells_the_tensor_pointed_at_and_changes_device(open_report: OpenReport) -> None:
    """b's output lies right above 2 MiB of weights at gpu0's peak of 5 MiB."""
    page = open_report(small_plan())
    page.locator("#peak").scroll_into_view_if_needed()
    box = page.locator("#peak").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 18 + (400 - 40) * (1 - 2.5 / 5))
    assert "b:0" in page.locator("#tooltip").inner_text()
    assert "gpu0 is fullest at 219 us: 5.00 MiB of 16.0 MiB, in 3 tensors" in page.inner_text("#peak-summary")
    page.check("[data-peak-device='1']", force=True)
    assert "gpu1 is fullest" in page.inner_text("#peak-summary")


def test_the_peak_chart_shows_the_limit_that_is_exceeded(open_report: OpenReport) -> None:
    """4 MiB of gpu0's 5: a fifth below the top of the chart; gpu1's 3 MiB keep it."""
    page = open_report(small_plan(memory_limits_bytes=(4 * MIB, 4 * MIB)))
    page.evaluate("() => { window.drawn = [] }")
    page.check("[data-peak-device='1']", force=True)
    assert "limit 4.00 MiB" not in page.evaluate("() => window.drawn")
    page.check("[data-peak-device='0']", force=True)
    assert "limit 4.00 MiB" in page.evaluate("() => window.drawn")
    y = 18 + (400 - 40) // 5
    row = [tuple(colour_at(page, "#peak", x, y)[:3]) for x in range(20, 40)]
    assert (179, 38, 30) in row


def test_dark_mode_follows_the_system_and_the_toggle(open_report: OpenReport) -> None:
    page = open_report(small_plan(), color_scheme="dark")
    background = "() => getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(18, 21, 25)"
    dark = colour_at(page, "#timeline", 5, 5)
    page.keyboard.press("t")
    assert page.evaluate(background) == "rgb(247, 247, 245)"
    assert sum(colour_at(page, "#timeline", 5, 5)[:3]) > sum(dark[:3]) + 300


def test_printing_is_light_shows_the_whole_step_and_comes_back(open_report: OpenReport) -> None:
    page = open_report(layered_plan(300, 2), color_scheme="dark")
    whole = shown_span(page)
    page.keyboard.press("+")
    zoomed = shown_span(page)
    page.emulate_media(media="print")
    page.wait_for_selector(f"#viewport[data-to='{whole[1]}']")
    assert sum(colour_at(page, "#timeline", 5, 5)[:3]) > 3 * 230
    assert page.evaluate("() => getComputedStyle(document.querySelector('.tools')).display") == "none"
    page.emulate_media(media="screen")
    page.wait_for_selector(f"#viewport[data-to='{zoomed[1]}']")
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_no_width_makes_the_page_scroll_sideways(open_report: OpenReport, width: int) -> None:
    page = open_report(layered_plan(300, 3), viewport={"width": width, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_hostile_names_stay_text(open_report: OpenReport) -> None:
    names = ["</script><script>throw 1</script>", "<img src=x onerror=throw>", "a\"b'c & \u2028 模型", "\x00\ud800"]
    nodes = [Node(name=name, module=name, source=name, parameter_bytes=MIB) for name in names]
    page = open_report(plan_of(nodes, machine_of(2), graph_name="<b>&</b>", warnings=("<i>careful</i>",)))
    assert page.locator("h1").inner_text().startswith("<b>&</b>")
    assert page.locator("main img, main i, h1 b").count() == 0
    page.keyboard.press(".")
    assert page.locator("#details .op-name").inner_text() == names[0]


# --- sizes and shapes of plans ---------------------------------------------------------------------------------------


def test_what_a_frame_draws_is_bounded_by_its_pixels_and_not_by_the_ops(
    open_report: OpenReport, large_plan: Plan
) -> None:
    def max_drawn(plan: Plan) -> int:
        page = open_report(plan)
        page.locator("#viewport").focus()
        frames: list[int] = []
        for key in ("+", "+", *["ArrowRight"] * 4, "-", "-", "0"):
            page.evaluate("() => { window.numCalls = 0; }")
            page.keyboard.press(key)
            shown_span(page)
            frames.append(page.evaluate("() => window.numCalls"))
        return max(frames)

    # 12,000 and 25,000 calls, of 33,000 that any number of ops needs; ops one by one would be 4 times.
    assert max_drawn(large_plan) < 3 * max_drawn(layered_plan(2_500, 4, memory_bytes=16 * 2**30))


def test_sixty_four_devices_scroll_inside_the_timeline(open_report: OpenReport) -> None:
    page = open_report(layered_plan(6_000, 64))
    assert page.locator("section:has(#devices-heading) tbody tr").count() == 64
    assert page.locator("#timeline").bounding_box()["height"] <= 900
    assert (
        page.evaluate("() => { const v = document.getElementById('viewport'); return v.scrollHeight / v.clientHeight }")
        > 4
    )
    page.fill("#search", "adam")
    page.keyboard.press("Enter")
    assert page.locator("#details .op-name").inner_text().startswith("adam")
    page.select_option("#peak-devices select", "63")
    assert "gpu63 is fullest" in page.inner_text("#peak-summary")


def test_on_a_blocking_machine_transfers_stand_on_both_devices(open_report: OpenReport) -> None:
    plan = small_plan()
    page = open_report(replace(plan, machine=replace(plan.machine, transfer_model="blocking")))
    for y in (COMPUTE_LANE, COMPUTE_LANE + 30 + 3 + 58 + 14):
        page.mouse.move(*point_at(page, 0.3, y))
        assert "a:0" in page.locator("#tooltip").inner_text()


def test_a_plan_on_one_device_with_nothing_known_about_its_ops_is_shown(open_report: OpenReport) -> None:
    plan = plan_of([Node(name="only", output_bytes=0)], machine_of(1), baselines=(), lower_bound=0)
    page = open_report(plan)
    page.mouse.move(*point_at(page, 0.5, COMPUTE_LANE))
    assert "only" in page.locator("#tooltip").inner_text()


def test_a_plan_that_takes_no_time_is_shown(open_report: OpenReport) -> None:
    page = open_report(plan_of([Node(name="x", time_ns=0), Node(name="y", time_ns=0, inputs=(0,))], machine_of(1)))
    page.keyboard.press(".")
    assert page.locator("#details .op-name").inner_text() == "x"
