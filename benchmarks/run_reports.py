"""Three networks planned for two CPU devices, run and compared, with a report and a picture of each.

    python benchmarks/run_reports.py OUT [--networks nasnet googlenet bert] [--steps N]

Writes OUT/NAME.html, OUT/NAME.png and OUT/NAME.txt, what the command printed. Takes some four minutes and wants a
machine with nothing else to do. Pictures need Playwright and Chromium; without them there are none.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

#: Functions of zoo_modules.py, and how each is run; the last one is there to try this script.
NETWORKS = {"nasnet": [], "googlenet": ["--training"], "bert": ["--training"], "mmoe": []}


def make_report(name: str, steps: int, folder: Path) -> None:
    source = Path(__file__).with_name("zoo_modules.py")
    command = [sys.executable, "-m", "placewright", "run", f"{source}:{name}", *NETWORKS[name], "--calibrate"]
    command += ["--steps", str(steps), "--report", str(folder / f"{name}.html")]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    (folder / f"{name}.txt").write_text(told)
    print(told)


def take_picture(page: Path, picture: Path, chromium: str) -> None:
    """Takes a picture of the report, from its comparison with the run to its timeline."""
    from playwright.sync_api import FloatRect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="light")
        opened.goto(page.resolve().as_uri())
        opened.wait_for_timeout(500)
        first, last = (opened.locator(f"section[aria-labelledby={name}-heading]") for name in ("run", "timeline"))
        above, below = first.bounding_box(), last.bounding_box()
        assert above is not None
        assert below is not None
        height = below["y"] + below["height"] - above["y"]
        clip = FloatRect(x=above["x"], y=above["y"], width=above["width"], height=height)
        opened.screenshot(path=picture, full_page=True, clip=clip)
        browser.close()


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS)[:3], metavar="NAME")
    options.add_argument("--steps", type=int, default=15)
    return options


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    for name in arguments.networks:
        make_report(name, arguments.steps, arguments.out)
        if chromium is not None:
            take_picture(arguments.out / f"{name}.html", arguments.out / f"{name}.png", chromium)


if __name__ == "__main__":
    main()
