import importlib.util
import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("module", "extra"),
    [("haystack", "haystack"), ("langchain", "langchain"), ("llama_index", "llama-index")],
)
def test_a_framework_that_is_missing_is_named_with_its_extra(module, extra, monkeypatch):
    name = f"foveate.integrations.{module}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=rf"run `pip install 'foveate\[{extra}\]'`"):
        import_module(name)
