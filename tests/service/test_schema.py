"""Requests made from the OpenAPI schema: whatever it allows or forbids, nothing breaks."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from tests.profiles import NIGHTLY

EXAMPLES = 10 if NIGHTLY else 2  # of each operation and mode


@pytest.fixture(scope="module")
def schemathesis():
    return pytest.importorskip("schemathesis")  # which takes a second


@pytest.fixture(scope="module")
def operations(served, schemathesis):
    schema = schemathesis.openapi.from_dict(served.client.get("/openapi.json").json())
    return [result.ok() for result in schema.get_all_operations()]


def test_the_addresses_are_relative_to_the_schema(served):
    """So that they are right behind a proxy that adds a prefix."""
    assert served.client.get("/openapi.json").json()["servers"] == [{"url": "."}]


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_nothing_breaks(served, schemathesis, operations, mode):
    """No answer is a failure of the server, and each has a status and a form that are documented.

    Not checked is that everything in the schema's form is accepted, since a text may be blank, and
    a file may be in no format.
    """
    mode = schemathesis.GenerationMode[mode]
    document_id = served.upload()
    checks = schemathesis.checks
    excluded = [checks.CHECKS.get_one("positive_data_acceptance")]
    num_sent = 0
    for operation in operations:
        known = {}
        if "{document_id}" in operation.path and operation.method != "delete":
            known = {"path_parameters": {"document_id": document_id, "number": 1}}

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(mode, **known))
        def send(case):
            nonlocal num_sent
            case.call_and_validate(base_url=served.url, excluded_checks=excluded)
            num_sent += 1

        try:
            send()
        except Unsatisfiable:  # nothing about it can be wrong
            assert mode is schemathesis.GenerationMode.NEGATIVE
    assert num_sent >= 10 * EXAMPLES
