"""Who may ask, and what answers carry."""

import sys

import pytest

from foveate.service.server import check_address

TOKEN = "a-token-of-many-characters"


@pytest.fixture(scope="module")
def protected(small_encoder):
    from tests.service.conftest import serving

    with serving(small_encoder, token=TOKEN) as running:
        yield running


def test_a_token(protected):
    client = protected.client
    for header in ({}, {"Authorization": "Bearer no"}, {"Authorization": TOKEN}):
        answer = client.get("/documents", headers=header)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert client.get("/metrics", headers=header).status_code == 401
        refused = client.post("/v1/embeddings", headers=header, json={})
        assert refused.json()["error"]["type"] == "authentication_error"
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/documents", headers=right).status_code == 200
    assert client.get("/metrics", headers=right).status_code == 200
    for path in ("/", "/healthz", "/openapi.json"):
        assert client.get(path).status_code == 200
    assert client.get("/healthz").json()["needs_token"]


def test_a_token_is_checked_before_the_body_is_read(protected):
    answer = protected.client.post("/documents", content=b"{", headers={"Content-Length": "1"})
    assert answer.status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.", ""])
def test_names_that_were_made_to_point_here(served, host):
    answer = served.client.get("/healthz", headers={"Host": host})
    assert answer.status_code == (200 if host == "localhost." else 421)


def test_names_of_this_machine(served):
    for host in ("localhost", "LOCALHOST:8321", "127.0.0.1:1", "[::1]", "[::1]:8321"):
        assert served.client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "http://["]
)
def test_pages_of_other_sites(served, origin):
    answer = served.client.post("/documents", json={"text": "Cod."}, headers={"Origin": origin})
    assert answer.status_code == 403
    answer = served.client.get("/documents", headers={"Origin": origin})
    assert "access-control-allow-origin" not in answer.headers


def test_the_page_itself(served):
    answer = served.client.post("/documents", json={"text": "Cod."}, headers={"Origin": served.url})
    assert answer.status_code == 201


@pytest.mark.usefixtures("without_processes")
def test_origins_that_were_allowed(strict):
    site = "https://reader.example"
    with strict(allowed_origins=[site], token=TOKEN) as served:
        asked = served.client.options(
            "/documents",
            headers={
                "Origin": site,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization, x-stainless-os",
            },
        )
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == site
        headers = {"Origin": site, "Authorization": f"Bearer {TOKEN}"}
        sent = served.client.post("/documents", json={"text": "Cod."}, headers=headers)
        assert sent.status_code == 201
        assert sent.headers["access-control-expose-headers"] == "Retry-After"
        other = served.client.get("/healthz", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
        for name, status in (("reader.example", 200), ("evil.example", 421)):  # passed by a proxy
            assert served.client.get("/healthz", headers={"Host": name}).status_code == status


@pytest.mark.parametrize("path", ["/", "/healthz", "/nothing", "/documents"])
def test_security_headers(served, path):
    headers = served.client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"


def test_paths_that_lead_out_of_the_page(served):
    for path in ("/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/page/../app.py"):
        assert served.client.get(path).status_code == 404


def test_the_page_hides_no_wrong_method(served):
    answer = served.client.get("/search", params={"query": "cod"})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert served.client.get("/app.js").headers["content-type"].startswith("text/javascript")
    assert "<html" in served.client.get("/").text


@pytest.mark.parametrize("path", ["/", "/app.js", "/healthz", "/documents"])
def test_head_is_get_without_content(served, path):
    got, asked = served.client.get(path), served.client.head(path)
    assert (asked.status_code, asked.content) == (200, b"")
    for name in ("content-type", "content-length", "etag"):
        assert asked.headers.get(name) == got.headers.get(name)


@pytest.mark.parametrize("path", ["/documents", "/documents/u-none", "/app.js"])
def test_a_wrong_method_is_refused(served, path):
    assert served.client.put(path).status_code == 405


def test_counters(served):
    served.client.get("/documents")
    served.client.get("/nothing/of/this/name")
    text = served.client.get("/metrics").text
    labels = 'method="GET",route="/documents",status="200"'
    assert f"foveate_request_seconds_count{{{labels}}}" in text
    assert "/nothing/of/this/name" not in text
    assert "process_start_time_seconds" in text or sys.platform != "linux"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_addresses_that_others_reach_need_a_token(host):
    with pytest.raises(ValueError, match="give a token"):
        check_address(host, None)
    check_address(host, TOKEN)
    with pytest.raises(ValueError, match="16 ASCII characters"):
        check_address(host, "short")


def test_addresses_of_this_machine_need_none():
    for host in ("127.0.0.1", "localhost", "::1", "127.1.2.3"):
        check_address(host, None)
