"""Packages that come later are imported when they are needed: tested in a new process."""

import subprocess
import sys

import pytest

from foveate import Document
from foveate.inference import default_model_path
from foveate.preprocessing import LEDProcessor
from tests.led import bpe
from tests.profiles import NIGHTLY

COD = "The cod is a fish of cold seas. Cod swim in schools, and follow the herring to cold seas."
SCRIPT = """
import sys
from foveate.documents import Document
from foveate.preprocessing import LEDProcessor, TreeBertProcessor, load_tokenizer

default_model, led, text = sys.argv[1:]
# Without a warning, though transformers does not know the type of this model yet.
load_tokenizer(default_model)
TreeBertProcessor.from_pretrained(default_model)
assert "foveate.models.tree_bert" not in sys.modules
assert "foveate.inference" not in sys.modules
print(*LEDProcessor.from_pretrained(led).keywords(Document.from_text(text)))
"""


@pytest.mark.skipif(not NIGHTLY, reason="importing transformers anew takes seconds")
def test_models_and_encoders_are_imported_when_they_are_needed(tmp_path):
    detector = {"name": "phrases", "max_words": 1}
    saved = LEDProcessor(bpe([COD]), num_keywords=4, detector=detector)
    saved.save_pretrained(tmp_path)
    command = [sys.executable, "-c", SCRIPT, default_model_path(), tmp_path, COD]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == saved.keywords(Document.from_text(COD))
    assert done.stderr == ""
