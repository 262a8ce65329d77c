import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from foveate import Document, Encoder
from foveate.integrations.chunks import encode_chunks

CHUNKS = ["Cod swim. They eat herring.", "They are sold in June."]


def test_a_chunk_is_the_mean_of_its_sentences_in_their_document(small_encoder):
    [vectors] = encode_chunks(small_encoder, [[*CHUNKS, "Eels are long."]], [["Fish", "", "Eel"]])
    sections = [("Fish", "\n\n".join(CHUNKS)), ("Eel", "Eels are long.")]
    sentences = small_encoder.encode(Document.from_sections("", sections)).sentences
    expected = torch.stack([sentences[:2].mean(0), sentences[2], sentences[3]])
    torch.testing.assert_close(vectors, torch.nn.functional.normalize(expected, dim=1))


def test_blank_chunks_keep_their_places(small_encoder):
    full, empty, mixed = encode_chunks(
        small_encoder, [CHUNKS, [], [" ", CHUNKS[0], "\n\n", CHUNKS[1], ""]]
    )
    torch.testing.assert_close(mixed[[1, 3]], full)
    torch.testing.assert_close(mixed[0], small_encoder.encode_texts(""))
    assert empty.shape == (0, small_encoder.dimension)
    [blank] = encode_chunks(small_encoder, [["", "\n"]])
    assert blank.isfinite().all()


def test_only_chunks_of_one_document_meet(small_encoder):
    [alone], [again, _] = encode_chunks(small_encoder, [CHUNKS[:1], CHUNKS])
    [other], _ = encode_chunks(small_encoder, [CHUNKS[:1], ["Salt is white."]])
    torch.testing.assert_close(alone, other)
    assert (alone - again).norm() > 1e-3


@hypothesis.settings(max_examples=20)
@hypothesis.given(st.lists(st.text(st.characters(exclude_categories=["C"]), max_size=12)))
def test_any_text_is_a_chunk(small_encoder, chunks):
    [vectors] = encode_chunks(small_encoder, [chunks])
    assert vectors.shape == (len(chunks), small_encoder.dimension)
    assert vectors.isfinite().all()


def test_stock_encoders_work(tmp_path, tokenizer):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Pooling

    from tests.sentence_transformer import save

    encoder = Encoder.from_pretrained(save(tmp_path, tokenizer, Pooling(32)), device="cpu")
    [vectors] = encode_chunks(encoder, [CHUNKS])
    torch.testing.assert_close(vectors[1], encoder.encode_texts(CHUNKS[1]))


def test_a_string_is_no_list_of_chunks(small_encoder):
    for documents in ("Cod swim.", CHUNKS):
        with pytest.raises(TypeError, match="list of chunks"):
            encode_chunks(small_encoder, documents)


def test_characters_that_are_no_text_are_located(small_encoder):
    with pytest.raises(ValueError, match=r"Chunk 1 of document 1 has the character U\+0000 at 3"):
        encode_chunks(small_encoder, [CHUNKS, ["Cod.", "Eel\x00."]])
