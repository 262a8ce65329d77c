"""Vectors, for clients that were written for other services."""

import base64
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

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
        if arguments["input"] == "":
            assert wrong.value.body["message"] == "A text is empty: leave it out."
    whole = client.embeddings.create(model="foveate", input="Cod", dimensions=16)
    assert len(whole.data[0].embedding) == 16


def test_models(client):
    assert [one.id for one in client.models.list()] == ["foveate"]


@pytest.mark.parametrize("text", ["cod\0", "cod\ud800"])
def test_what_is_not_text_is_refused(served, text):
    body = json.dumps({"model": "foveate", "input": text})
    headers = {"content-type": "application/json"}
    answer = served.client.post("/v1/embeddings", content=body, headers=headers)
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
