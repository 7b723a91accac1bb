"""What the end-to-end tests ask of the running stack: Dagster by its API, and its pages in a browser."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.programs.wanted import CHROMIUM, command, find_library, is_loadable
from cdc_assets_tests.support.lakehouse import PAGE_TIMEOUT_MS, Lakehouse


@pytest.fixture(scope="module")
def graphql(lakehouse: Lakehouse) -> Graphql:
    return Graphql(lakehouse.addresses["CDC_DAGSTER_URL"], lakehouse.private("dagster_token"))


@pytest.fixture(scope="module")
def page(lakehouse: Lakehouse) -> Iterator[Any]:
    """A browser that was given the address that `cdc up` has printed."""
    from playwright.sync_api import sync_playwright

    chromium = command(CHROMIUM, "chromium")
    for name in CHROMIUM.libraries:
        if not is_loadable(name) and (library := find_library(name)):
            # Playwright's Node.js starts with the environment of this process.
            os.environ["LD_LIBRARY_PATH"] = str(library.parent)
    quiet = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=quiet)
        page = browser.new_page(viewport={"width": 2200, "height": 1000})
        page.set_default_timeout(PAGE_TIMEOUT_MS)
        (printed,) = re.findall(r"Dagster +(http://\S+)", lakehouse.up_output)
        # What is printed for others than a terminal names the token's file.
        page.goto(f"{printed.partition('?')[0]}?token={lakehouse.private('dagster_token').strip()}")
        yield page
        browser.close()
