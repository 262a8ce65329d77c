"""Queries that are encoded without torch."""

import numpy as np
import pytest
import torch

from foveate.inference.query_encoder import QueryEncoder


@pytest.mark.parametrize(
    "query", ["cod", "How are fish counted?", "§ 5.1 of C++ " * 20, "鯨が泳ぐ", ""]
)
def test_vectors_are_those_of_the_encoder(encoder, query):
    expected = torch.nn.functional.normalize(encoder.encode_queries([query]), dim=-1).numpy()
    np.testing.assert_allclose(QueryEncoder().encode_queries([query]), expected, atol=1e-5)


def test_vectors_of_tokens_are_those_of_the_encoder(encoder):
    for found, expected in zip(
        QueryEncoder().encode_query("Cod swim?"), encoder.encode_query("Cod swim?"), strict=True
    ):
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_longer_texts_than_a_sentence_do_not_fit():
    assert QueryEncoder().fits("cod " * 254)
    assert not QueryEncoder().fits("cod " * 255)


def test_what_it_knows_is_what_the_encoder_knows(encoder):
    from foveate.index.identity import identify

    queries = QueryEncoder()
    assert queries.min_likely_score == encoder.min_likely_score
    assert queries.context == encoder.context
    assert queries.sha256 == identify(encoder).sha256
