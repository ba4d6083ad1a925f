"""The pages of `fit`: the code to write comes first, nothing is wider than the window, buttons and keys work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from training_steps import training_step

import placewright
from placewright.analysis.alternatives import Alternatives, Floor, TrainingSetup
from placewright.report.alternatives import alternatives_html
from placewright.report.frontier import frontier_html
from placewright.terminal.alternatives_table import alternatives_table
from placewright.terminal.tables import drawn

GIB = 2**30


def setup(batch: int, peak: float, *, changes: str = "", reruns: int = 0) -> TrainingSetup:
    """A setup on a card of 24 GiB; larger batches are faster."""
    size = int(peak * GIB)
    return TrainingSetup(
        batch=batch,
        accumulation=2,
        dtype="bfloat16",
        autocast=True,
        optimizer="8-bit Adam" if changes else "AdamW",
        changes=changes,
        num_checkpointed=0,
        split="",
        planned=reruns > 0,
        num_reruns=reruns,
        in_backward=False,
        offloaded=False,
        device="rtx3090",
        limit_bytes=24 * GIB,
        fits=peak <= 24,
        peak_bytes=size,
        parameter_bytes=size // 4,
        gradient_bytes=size // 4,
        optimizer_bytes=size // 4,
        activation_bytes=size // 4,
        step_time_ns=10**9,
        time_per_sample_ns=1e9 / batch,
        code=f"# batch {batch}\n" + "model(*batch).backward()  # a line of code that is wider than a phone is, by far",
    )


@pytest.fixture(scope="module")
def found() -> Alternatives:
    same = [setup(batch, 20, reruns=1000 * batch) for batch in range(12, 2, -1)]
    changed = [setup(40, 12, changes="states in 8 bits")]
    too_large = [setup(8, 25), setup(16, 300)]
    floor = Floor(
        device="rtx3090",
        least_bytes=3 * GIB,
        parameter_bytes=GIB,
        optimizer_bytes=GIB,
        needed_bytes=GIB,
        op="_log_softmax_backward_data",
        kind="softmax_backward",
        lowered_by=("computing the loss in chunks",),
    )
    return Alternatives(
        schema_version=1,
        model="Llama",
        machine="rtx3090",
        samples=8,
        optimizer="AdamW",
        reserved_bytes=0,
        basis="predicted",
        setups=(*same, *changed, *too_large),
        floors=(floor,),
        left_out=tuple(f"what number {number}: there was no time for it" for number in range(5)),
        seed=0,
    )


def test_what_to_write_stands_first_and_what_was_not_tried_is_one_sentence(found: Alternatives) -> None:
    text = alternatives_html(found)
    places = [
        text.index(each)
        for each in (
            "83.3 ms a sample",
            "# batch 12\n",
            "With 8 samples",
            "# batch 4\n",
            "What each holds",
            "Not tried: ",
        )
    ]
    assert places == sorted(places)
    assert text.count("Not tried") == text.count("there was no time for it") == 1
    # Eight of a group are shown at once.
    assert "2 more" in text
    assert text.count('<details class="way') == len(found.setups)
    assert "http" not in text.replace("http-equiv", "")


def test_parts_of_the_table_stand_in_the_same_columns_and_cut_nothing(
    found: Alternatives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = drawn(alternatives_table(found)).splitlines()
    assert not [line for line in lines if "…" in line or (len(line) > 80 and not line.startswith("    "))]
    peaks = [line for line in lines if line.endswith(" GiB") and "bfloat16*" in line]
    assert len({len(line) for line in peaks}) == 1
    assert len(peaks) == len(found.setups)
    for name in ("fits, but trains something else", "does not fit"):
        assert name in lines


def test_no_change_is_less_than_nothing() -> None:
    frontier = placewright.frontier(training_step(5, 8), "p100@graphs", evaluations=20)
    for text in (str(frontier), frontier_html(frontier.facts)):
        assert "-0.0%" not in text
        assert "none" in text


def open_still(browser: Any, text: str, folder: Path, **options: Any) -> Any:
    (folder / "fit.html").write_text(text)
    page = browser.new_page(**options)
    page.complaints = []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto((folder / "fit.html").as_uri())
    return page


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_no_page_of_fit_is_wider_than_its_window(browser: Any, found: Alternatives, tmp_path: Path, width: int) -> None:
    frontier = placewright.frontier(training_step(5, 8), "p100@graphs", evaluations=20).facts
    for text in (alternatives_html(found), frontier_html(frontier)):
        page = open_still(browser, text, tmp_path, viewport={"width": width, "height": 844})
        page.keyboard.press("e")  # with all code open, which is wide
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.complaints == []
        page.close()


def test_buttons_and_keys_of_the_page(browser: Any, found: Alternatives, tmp_path: Path) -> None:
    page = open_still(browser, alternatives_html(found), tmp_path, color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.keyboard.press("t")
    page.get_by_text("Theme: light").click()
    assert page.get_by_text("Theme: dark").is_visible()
    assert page.evaluate(background) != light
    page.locator("details.way").first.locator("summary").click()
    assert page.locator("details.way").first.locator("pre").inner_text().startswith("# batch 12")
    page.keyboard.press("?")
    assert page.get_by_text("copy the code").is_visible()
    assert page.complaints == []
    page.close()
