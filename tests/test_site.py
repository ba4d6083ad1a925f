"""The site that `make docs` builds holds all that it promises and asks the network for nothing."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer.main

import placewright
from placewright.cli.app import whole_app

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.long


class Page(HTMLParser):
    """ids: what a link can lead to. links: targets of <a>. loaded: what a browser fetches to show the page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given["id"]} if "id" in given else set()
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])


@pytest.fixture(scope="module")
def site() -> Path:
    """Built from nothing, and any warning is an error. It stays in build/site."""
    place = ROOT / "build" / "site"
    shutil.rmtree(place, ignore_errors=True)
    options = ["-W", "--keep-going", "-q", "-c", str(ROOT / "docs" / "site"), "-b", "html"]
    subprocess.run([sys.executable, "-m", "sphinx", *options, ROOT, place], check=True)
    return place


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path.resolve(): Page(path) for path in site.rglob("*.html")}


def paths_of_commands(command: object, path: str) -> Iterator[str]:
    for name, member in getattr(command, "commands", {}).items():
        yield f"{path} {name}"
        yield from paths_of_commands(member, f"{path} {name}")


def test_reading_it_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    loaded = [address for page in pages.values() for address in page.loaded]
    assert len(loaded) > 100
    assert [address for address in loaded if urlsplit(address).netloc] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import", sheet.read_text()), sheet


def test_every_link_within_it_leads_to_a_page_and_a_place_on_it(pages: dict[Path, Page]) -> None:
    lost = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].ids if target in pages else set()
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in known):
                lost.append(f"{path.name}: {link}")
    assert lost == []


def test_the_reference_has_every_public_name_and_every_command(site: Path, pages: dict[Path, Page]) -> None:
    reference = pages[(site / "docs" / "site" / "python.html").resolve()]
    assert {f"placewright.{name}" for name in placewright.__all__ if name != "__version__"} <= reference.ids
    commands = pages[(site / "docs" / "site" / "commands.html").resolve()]
    wanted = {path.replace(" ", "-") for path in paths_of_commands(typer.main.get_command(whole_app()), "placewright")}
    assert len(wanted) > 20
    assert wanted <= commands.ids


def test_it_is_searched_without_a_server(site: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"file://{site.resolve()}/search.html?q=eviction")
        first = page.locator("#search-results li a").first
        first.wait_for(timeout=60_000)
        assert "algorithms" in " ".join(page.locator("#search-results li").all_inner_texts()).lower()
        browser.close()
