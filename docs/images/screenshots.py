"""Pictures of the reader page for the documentation, taken with the distribution's Chromium.

    foveate index docs/howto --library docs.library
    foveate serve --library docs.library &
    python docs/images/screenshots.py --output docs/images

Shows `examples/pep-0703.pdf` on the page of a running service. The files are WebP.
"""

import argparse
import io
import shutil
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

PDF = Path(__file__).parents[2] / "examples" / "pep-0703.pdf"
QUESTION = "what happens to extensions that are not thread safe?"
LIBRARY_QUERY = "keep a library up to date"
QUALITY = 60  # of WebP, up to 100


def save(page: Any, file: Path) -> None:
    """Write what the window shows."""
    page.wait_for_load_state("networkidle")
    page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
    page.evaluate("Promise.all([...document.images].map((image) => image.src && image.decode()))")
    page.wait_for_timeout(300)
    Image.open(io.BytesIO(page.screenshot())).save(file, "WEBP", quality=QUALITY, method=6)
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


def take(page: Any, address: str, output: Path) -> None:
    """Open the paper, and take a picture of each thing that can be done with it."""
    page.goto(address)
    page.get_by_label("Search for").fill(LIBRARY_QUERY)
    page.locator("#search-list li").first.wait_for()
    save(page, output / "reader-documents.webp")

    page.set_input_files("#file", PDF)
    page.get_by_role("tab", name="Summary").click()
    page.locator("#summary-list li").nth(3).get_by_role("button").first.click()
    save(page, output / "reader-summary.webp")

    page.get_by_role("tab", name="Ask").click()
    page.get_by_label("Question").fill(QUESTION)
    page.locator("#ask-list li").nth(1).get_by_role("button").first.click()
    page.get_by_role("button", name="Text", exact=True).click()
    save(page, output / "reader-ask.webp")

    page.emulate_media(color_scheme="dark")
    page.get_by_role("tab", name="Keywords").click()
    page.locator("#keywords-list button").filter(has_text="biased reference").click()
    page.locator("#keywords-places li").nth(2).get_by_role("button").first.click()
    save(page, output / "reader-dark.webp")

    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 400, "height": 720})
    page.get_by_role("button", name="Answers").click()
    page.get_by_role("tab", name="Search").click()
    page.locator("#search-scope").select_option("document")
    page.get_by_label("Search for").fill("memory allocator")
    page.locator("#search-list li").first.wait_for()
    save(page, output / "reader-narrow.webp")


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="http://127.0.0.1:8321/", help="of the service")
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="folder")
    options = parser.parse_args()
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        page = browser.new_page(
            viewport={"width": 1200, "height": 720}, device_scale_factor=1.25, color_scheme="light"
        )
        page.set_default_timeout(120_000)
        take(page, options.address, options.output)
        browser.close()


if __name__ == "__main__":
    main()
