import pytest

import runs


class Context:
    """Starts nothing, and remembers what each process would be given."""

    def __init__(self):
        self.given = []

    def Process(self, target, args):  # noqa: N802
        self.given.append(args)
        return self

    exitcode = 0

    def start(self):
        pass

    def join(self):
        pass


@pytest.fixture
def context(monkeypatch):
    context = Context()
    monkeypatch.setattr(runs.multiprocessing, "get_context", lambda method: context)
    return context


def test_every_call_has_a_process(context):
    runs.run_in_parallel(print, ((number,) for number in range(3)))
    assert context.given == [(0, print, [(0,)]), (1, print, [(1,)]), (2, print, [(2,)])]


def test_processes_share_the_calls(context):
    runs.run_in_parallel(print, [(number,) for number in range(5)], processes=2)
    assert context.given == [(0, print, [(0,), (2,), (4,)]), (1, print, [(1,), (3,)])]


def test_no_more_processes_than_calls_are_started(context):
    runs.run_in_parallel(print, [(0,)], processes=2)
    assert len(context.given) == 1


def test_a_failed_run_ends_the_script(context):
    context.exitcode = 1
    with pytest.raises(SystemExit, match="a run failed"):
        runs.run_in_parallel(print, [(0,)])
