"""The page of a plan, open in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placewright.execution.comparison import RunComparison
from placewright.plans.record import Plan
from placewright.report import write_report

RECORD_DRAWING = """
window.drawn = [];
window.numCalls = 0;
const prototype = CanvasRenderingContext2D.prototype;
for (const name of ['fillRect', 'strokeRect', 'rect', 'lineTo', 'moveTo', 'fill', 'stroke', 'fillText']) {
  const draw = prototype[name];
  prototype[name] = function (...rest) {
    window.numCalls += 1;
    if (name === 'fillText') window.drawn.push(rest[0]);
    return draw.apply(this, rest);
  };
}
"""


@pytest.fixture
def open_report(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Yield a function that writes the report of a plan and opens it. At the end of the test, check that nothing was
    logged, thrown or requested.

    `window.drawn` has the texts drawn on the canvases since it was last emptied; `window.numCalls` counts the drawing
    calls.
    """
    complaints: list[str] = []
    pages = []

    def open_page(plan: Plan, run: RunComparison | None = None, **options: Any) -> Any:
        path = tmp_path / "report.html"
        write_report(plan, path, run=run)
        page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
        pages.append(page)
        page.add_init_script(RECORD_DRAWING)
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(("data:", path.as_uri()))
                else complaints.append(f"request: {request.url}")
            ),
        )
        page.goto(path.as_uri())
        page.wait_for_selector("#viewport[data-to]")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
