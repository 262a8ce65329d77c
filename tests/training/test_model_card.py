"""The cards of trained models."""

from foveate.training import train
from tests.training.conftest import masked_lm


def test_a_trained_model_has_a_card_which_is_not_written_again(corpus_file, tmp_path):
    card = tmp_path / "cod" / "README.md"
    train(masked_lm(corpus_file, max_steps=1), tmp_path / "cod")
    text = card.read_text()
    assert "- foveate\n" in text
    assert "learning_rate" in text
    assert str(tmp_path) not in text
    card.write_text("Mine.\n")
    train(masked_lm(corpus_file, max_steps=1), tmp_path / "cod")
    assert card.read_text() == "Mine.\n"
