"""Let griffe, which knows the section `Examples:`, read Google's `Example:` as well."""

import re
from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Rename the section in every docstring that is loaded."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section in an object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
