"""The reader page as a browser shows it: one service and one browser for all tests of the page."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foveate import Encoder, Index
from tests.paths import ROOT
from tests.service.conftest import serving

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SERIOUS = ("serious", "critical")
SIZE = {"width": 1280, "height": 800}
PDF = ROOT / "examples" / "pep-0703.pdf"

FISH = """# Fish of the Sea

Fish live in all seas. They breathe through gills.

## Cod

The cod is a fish of cold seas. It eats herring and small crabs. Fishermen catch it with nets.

## Eel

The eel is a long fish. Its larvae drift across the ocean for two years. Nobody has seen it breed.

## Boats

Trawlers drag a net behind them. Diesel is dear, and the harbour is small. The owner pays the crew.
"""

SALT = """# Salt

## Mines

Salt is dug out of old mines. The miners work at night.

## Pans

Sea water dries in flat pans. What remains is white salt.
"""


@pytest.fixture(scope="package")
def library(encoder: Encoder, tmp_path_factory) -> Path:
    """Make a library of three documents, of which one has no title."""
    pytest.importorskip("lance")
    folder = tmp_path_factory.mktemp("library")
    (folder / "fish.md").write_text(FISH)
    (folder / "salt.md").write_text(SALT)
    index = Index.create(folder / "sea.library", model=encoder)
    (folder / "shoals.txt").write_text("Herring swim in large shoals. They come in May.\n")
    index.add([folder / "fish.md", folder / "salt.md", folder / "shoals.txt"])
    return folder / "sea.library"


@pytest.fixture(scope="package")
def address(encoder: Encoder, library: Path) -> Iterator[str]:
    """Run a service; give its address."""
    with serving(encoder, library=library) as served:
        yield f"{served.url}/"


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Start the distribution's Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("there is no browser: install chromium with apt-get to test the page")
    sync_api.expect.set_options(timeout=20_000)  # machines that run tests may be busy
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def window(browser: Any) -> Iterator[Any]:
    """Open a window, which takes longer than most tests."""
    context = browser.new_context(viewport=SIZE, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    context.close()


@pytest.fixture
def page(window: Any, address: str) -> Iterator[Any]:
    """Lend the window, and put it back as it was.

    At the end, the page must have printed nothing, and asked nobody but the service.
    """
    printed: list[str] = []
    elsewhere: list[str] = []

    def note(request: Any) -> None:
        if not request.url.startswith((address, f"blob:{address}", "data:")):
            elsewhere.append(request.url)

    # Chromium itself prints a line for each answer that is an error.
    listeners = {
        "console": lambda m: None if "Failed to load" in m.text else printed.append(m.text),
        "pageerror": lambda error: printed.append(str(error)),
        "request": note,
    }
    for event, listener in listeners.items():
        window.on(event, listener)
    yield window
    window.unroute_all()
    window.goto(f"{address}favicon.svg")  # another site would need another process
    window.evaluate("(localStorage.clear(), sessionStorage.clear())")
    window.context.clear_cookies()
    window.set_viewport_size(SIZE)
    window.emulate_media(media="null", color_scheme="null")
    window.mouse.move(0, 0)
    for event, listener in listeners.items():
        window.remove_listener(event, listener)
    assert printed == []
    assert elsewhere == []


@pytest.fixture
def home(page: Any, address: str) -> Any:
    """Open the first view."""
    page.goto(address)
    page.get_by_role("heading", name="Read a long document").wait_for()
    return page


@pytest.fixture
def fish(home: Any) -> Any:
    """Open the document about fish, from the library."""
    home.get_by_role("button", name="Fish of the Sea").click()
    home.locator("#summary-list li").first.wait_for()
    return home


def upload(page: Any, text: str, name: str = "upload.md") -> None:
    """Choose a file, and wait until it is open."""
    page.set_input_files(
        "#file", {"name": name, "mimeType": "text/markdown", "buffer": text.encode()}
    )
    page.get_by_role("heading", name="Outline").wait_for()
    page.locator("#text .sentence").first.wait_for()


def without_summary(page: Any) -> None:
    """Make up summaries: encoding a long document takes most of the time of its test."""
    page.route("**/summarize", lambda route: route.fulfill(json={"text": "", "sentences": []}))


def violations(page: Any) -> list[str]:
    """Return the serious findings of axe."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html']}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
