"""Vectors, for clients that were written for other services."""

import base64
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from foveate import Document

openai = pytest.importorskip("openai", reason="the client that the vectors are for")

TEXTS = ["Cod swim.", "They eat herring, and small fish.", "Salt is white."]


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_a_text_and_a_list(client, small_encoder):
    expected = F.normalize(small_encoder.encode_texts(TEXTS), dim=-1)
    for encoding in ("float", "base64"):
        many = client.embeddings.create(model="foveate", input=TEXTS, encoding_format=encoding)
        vectors = [one.embedding for one in many.data]
        if encoding == "base64":
            vectors = [np.frombuffer(base64.b64decode(v), "<f4").tolist() for v in vectors]
        torch.testing.assert_close(torch.tensor(vectors), expected, rtol=0, atol=1e-5)
        assert [one.index for one in many.data] == [0, 1, 2]
    one = client.embeddings.create(model="foveate", input=TEXTS[0])  # base64, decoded by the client
    torch.testing.assert_close(torch.tensor(one.data[0].embedding), expected[0], rtol=0, atol=1e-5)
    assert (one.model, one.object, one.data[0].object) == ("foveate", "list", "embedding")


def test_usage(client, tokenizer):
    made = client.embeddings.create(model="foveate", input=TEXTS)
    num_tokens = sum(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS)
    assert made.usage.prompt_tokens == made.usage.total_tokens == num_tokens


def test_errors_have_the_form_of_openai(client):
    with pytest.raises(openai.NotFoundError) as missing:
        client.embeddings.create(model="text-embedding-3-small", input="Cod")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    assert "'foveate'" in missing.value.message
    for arguments, param in (
        ({"input": "Cod", "dimensions": 8}, "dimensions"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["Cod", " "]}, "input"),
        ({"input": [1, 2]}, "input"),
        ({"input": ["Cod"] * 2049}, "input"),
        ({"input": "Cod", "encoding_format": "int8"}, "encoding_format"),
    ):
        with pytest.raises(openai.BadRequestError) as wrong:
            client.embeddings.create(model="foveate", **arguments)
        assert wrong.value.type == "invalid_request_error"
        assert wrong.value.param == param
        if arguments["input"] == [1, 2]:
            assert "check_embedding_ctx_length=False" in wrong.value.message
    whole = client.embeddings.create(model="foveate", input="Cod", dimensions=16)
    assert len(whole.data[0].embedding) == 16


def test_models(client):
    assert [one.id for one in client.models.list()] == ["foveate"]


def contextual(served, **arguments):
    return served.client.post(
        "/v1/contextualizedembeddings", json={"model": "foveate", **arguments}
    )


def test_chunks_are_read_in_their_document(served, small_encoder):
    documents = [["Cod swim. They eat herring.", "They sleep."], ["They sleep."]]
    answer = contextual(served, inputs=documents, input_type="document").json()
    assert [one["index"] for one in answer["data"]] == [0, 1]
    assert [[e["index"] for e in one["data"]] for one in answer["data"]] == [[0, 1], [0]]
    first, second = (torch.tensor([e["embedding"] for e in one["data"]]) for one in answer["data"])
    sentences = small_encoder.encode(Document.from_text("\n\n".join(documents[0]))).sentences
    expected = F.normalize(torch.stack([sentences[:2].mean(0), sentences[2]]), dim=-1)
    torch.testing.assert_close(first, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(first.norm(dim=-1), torch.ones(2), rtol=0, atol=1e-5)
    # The same words in another document.
    assert not torch.allclose(first[1], second[0], rtol=0, atol=1e-3)
    assert answer["usage"]["total_tokens"] > 0


def test_queries_are_read_by_themselves(served, small_encoder):
    queries = ["What swims?", "What sleeps?"]
    answer = contextual(
        served, inputs=[[one] for one in queries], input_type="query", encoding_format="base64"
    ).json()
    found = [
        np.frombuffer(base64.b64decode(one["data"][0]["embedding"]), "<f4")
        for one in answer["data"]
    ]
    expected = F.normalize(small_encoder.encode_queries(queries), dim=-1)
    torch.testing.assert_close(torch.tensor(np.array(found)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"inputs": [["Cod", "Eel"]], "input_type": "query"}, "inputs"),
        ({"inputs": [[" "]]}, "inputs"),
        ({"inputs": [[]]}, "inputs"),
        ({"inputs": ["Cod"]}, "inputs"),
        ({"inputs": [["Cod"]], "output_dimension": 8}, "output_dimension"),
        ({"inputs": [["Cod"]], "output_dtype": "int8"}, "output_dtype"),
    ],
)
def test_contextual_requests_that_make_no_sense(served, arguments, param):
    answer = contextual(served, **arguments)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_rerank(served):
    texts = ["Salt is white.", {"text": "The cod eats herring. It is a fish."}, "Nets are mended."]
    request = {"model": "foveate", "query": "The cod eats herring.", "documents": texts}
    answer = served.client.post("/v1/rerank", json=request)
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert sorted(one["index"] for one in results) == [0, 1, 2]
    scores = [one["relevance_score"] for one in results]
    assert scores == sorted(scores, reverse=True)
    assert results[0]["index"] == 1
    assert "document" not in results[0]
    assert answer.json()["usage"]["total_tokens"] > 10

    asked = served.client.post("/v1/rerank", json={**request, "top_n": 1, "return_documents": True})
    [best] = asked.json()["results"]
    assert best["document"] == texts[1]


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"query": " "}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": ["Cod.", ""]}, "documents"),
        ({"documents": ["\0"]}, "documents"),
        ({"top_n": 0}, "top_n"),
    ],
)
def test_ranking_that_makes_no_sense(served, arguments, param):
    request = {"model": "foveate", "query": "cod", "documents": ["Cod swim."], **arguments}
    answer = served.client.post("/v1/rerank", json=request)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_an_empty_text_is_refused_with_what_to_do(served):
    request = {"model": "foveate", "query": "cod", "documents": ["Cod.", ""]}
    answer = served.client.post("/v1/rerank", json=request)
    assert answer.json()["error"]["message"] == "A text is empty: leave it out."


@pytest.mark.parametrize("text", ["cod\0", "cod\ud800"])
def test_what_is_not_text_is_refused(served, text):
    for path, arguments in (
        ("embeddings", {"input": text}),
        ("rerank", {"query": text, "documents": ["Cod."]}),
    ):
        body = json.dumps({"model": "foveate", **arguments})
        headers = {"content-type": "application/json"}
        answer = served.client.post(f"/v1/{path}", content=body, headers=headers)
        assert answer.status_code == 400
        assert "is not text" in answer.json()["error"]["message"]


def test_a_body_that_is_no_json(served):
    answer = served.client.post(
        "/v1/embeddings", content=b"{", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["message"].partition(":")[0], error["param"]) == ("Invalid JSON", None)

    answer = served.client.post("/v1/embeddings", content=b'{"input": "Cod.", "model": "foveate"}')
    assert answer.status_code == 415
    assert "Content-Type: application/json" in answer.json()["error"]["message"]
