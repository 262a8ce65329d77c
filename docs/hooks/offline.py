"""Refuse to build a page that a browser could not show without a network."""

import re
from typing import Any

from mkdocs.exceptions import PluginError

LOADED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')


def on_post_page(output: str, *, page: Any, **kwargs: Any) -> str:
    """Check that a page loads no scripts, styles, fonts or pictures from elsewhere."""
    if found := LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads something from the network: {found[0]}")
    return output
