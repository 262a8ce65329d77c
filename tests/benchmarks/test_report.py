import json

import report


def test_the_machine_is_printed_once_with_what_is_saved(tmp_path, capsys, monkeypatch):
    machine = {"processor": "Abacus", "cores": 2, "launch µs": 4.98}
    monkeypatch.setattr(report, "machine", lambda: machine)
    report._print_machine.cache_clear()
    path = tmp_path / "results.json"
    report.save(path, [1], missing=["the rest"])
    report.save(path, [1, 2], missing=[])
    assert capsys.readouterr().out.splitlines() == [
        "processor: Abacus, cores: 2, launch µs: 4.98",
        str(path),
    ]
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["machine"] == machine
    assert saved["finished"]
    report._print_machine.cache_clear()
