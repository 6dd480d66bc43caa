"""The engine against cases whose truth is known: public and measured ones, and runs in real sessions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from programs import tools
from scoring import Score, load, score

from nd7core.attribution import Failure, explain_words

ROOT = Path(__file__).resolve().parents[2]


def _held(found: Score) -> None:
    assert found.share("kernel found as kernel") >= 0.98, found.failed
    assert found.share("others not taken for kernel") >= 0.98, found.failed
    assert found.share("target, where one is printed") >= 0.95, found.failed
    assert found.share("remedy") >= 0.95, found.failed


def test_the_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    found = score(load("denials.jsonl"))
    with capsys.disabled():
        print(found.table("the corpus: 279 public, measured and derived cases"))
    _held(found)
    for name in ("model found as model", "nd7-exec found as nd7-exec", "none found as none"):
        assert found.share(name) >= 0.95, found.failed


def test_runs_in_real_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    cases = load("real_runs.jsonl")
    assert sum(case["truth"]["source"] == "kernel" for case in cases) >= 150
    assert sum(case["truth"]["source"] == "none" for case in cases) >= 150
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"real sessions: {len(cases)} recorded runs"))
    _held(found)


def test_tools_in_real_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    """Tools and corners of tools that not every machine has, recorded by `collect.py --tools`."""
    cases = load("real_tools.jsonl")
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"more tools in real sessions: {len(cases)} recorded runs"))
    _held(found)


def test_what_is_recorded_of_tools_has_the_truth_of_its_case() -> None:
    """Each recorded run is one of the commands in tools.jsonl, and its truth is what was set up for it."""
    of = dict(tools())
    assert len(of) == len(tools())
    cases = load("real_tools.jsonl")
    for row in cases:
        number = int(row["id"].removeprefix(f"{row['confinement']}-").partition("-")[0])
        case, truth = of[number], row["truth"]
        assert (truth["source"], truth["operation"]) == (case.source, case.operation), row["id"]
        assert (truth["target"] or "").endswith(case.target.format(n=number, P="", O="", H="", T="")), row["id"]
    assert sum(row["truth"]["source"] == "kernel" for row in cases) >= 150
    assert len(cases) >= 480


def test_what_other_programs_print(capsys: pytest.CaptureFixture[str]) -> None:
    """Formats of programs that cannot be run here (macOS, clouds, registries), written down from memory: trust less."""
    cases = load("written.jsonl")
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"{len(cases)} outputs of known formats"))
    _held(found)
    assert found.share("model found as model") >= 0.95, found.failed


def test_what_models_say(capsys: pytest.CaptureFixture[str]) -> None:
    """Sentences in the manner of models, half of them reports: plain, in lists, with code, in twenty languages.

    Written in ten batches, each before it was known what the engine makes of it; on first sight it was right of 82,
    82, 81, 91, 89, 84, 95, 78, 84 and 90 % of them, so count on eight or nine of ten.  Claiming what is no report
    counts as much as missing one.
    """
    cases = load("said.jsonl")
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"said by models: {len(cases)} sentences"))
    for name in ("model found as model", "none found as none", "target, where one is printed", "remedy"):
        assert found.share(name) >= 0.95, found.failed


def test_what_describes_a_sandbox_reports_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """nd7's own pages: nothing looks more like a report of a refusal than the prose on how refusing works."""
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CHANGELOG.md"))
    sentences = [part for part in re.split(r"(?<=[.!?])\s+|\n\n|\n- ", text) if len(part) > 20]
    taken = [
        part
        for part in sentences
        if explain_words(Failure(tool="assistant", output=part.replace("\n", " "), project="/home/rob/p"))
    ]
    with capsys.disabled():
        print(f"\n{len(taken)} of {len(sentences)} sentences about a sandbox are taken for a report")
    assert len(sentences) > 100 and len(taken) <= 0.06 * len(sentences), taken


def test_a_set_that_the_engine_was_not_built_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs and documented outputs that somebody else gathered and labelled, from what was set up, after it was built.

    What it found missing has been mended since, so its figures are now those of any fixture.
    """
    cases = load("blind.jsonl")
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"gathered apart: {len(cases)} cases"))
    _held(found)
    for name in ("model found as model", "nd7-exec found as nd7-exec", "none found as none"):
        assert found.share(name) >= 0.95, found.failed


def test_a_second_set_that_the_engine_was_not_built_on(capsys: pytest.CaptureFixture[str]) -> None:
    """The same once more, of other programs, by somebody who had seen neither the engine nor the other sets.

    On first sight: kernel 98.3 %, others taken for it 1.6 %, targets 96.4 %, remedy 96.4 %, the agent's words 90 %.
    Then the forms that it missed were mended, so it is blind no more.
    """
    cases = load("blind_second.jsonl")
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"gathered apart, a second time: {len(cases)} cases"))
    _held(found)
    for name in ("model found as model", "nd7-exec found as nd7-exec", "none found as none"):
        assert found.share(name) >= 0.95, found.failed


def test_a_third_set_that_the_engine_was_not_built_on(capsys: pytest.CaptureFixture[str]) -> None:
    """The other half of what was gathered then, kept back until the first half was mended.

    On first sight: kernel 97.9 %, others taken for it 0 %, targets 98.3 %, remedy 97.6 %, the agent's words 18 of 19.
    Then the forms that it missed were mended, so it is no longer blind.
    """
    cases = load("blind_third.jsonl")
    assert len(cases) >= 400
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"gathered apart, a third time: {len(cases)} cases"))
    _held(found)
    for name in ("model found as model", "nd7-exec found as nd7-exec", "none found as none"):
        assert found.share(name) >= 0.95, found.failed


def test_a_fourth_set_that_the_engine_was_not_built_on(capsys: pytest.CaptureFixture[str]) -> None:
    """A small set of further programs, tests and places, by somebody who had seen neither the engine nor its sets.

    On first sight: kernel 129 of 135, others taken for it 2 of 95, targets 130 of 133, remedy 220 of 230, the agent's
    words 11 of 11, nd7-exec 5 of 6.  Then the forms that it missed were mended, so it is no longer blind.
    """
    cases = load("blind_fourth.jsonl")
    assert len(cases) >= 250
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"gathered apart, a fourth time: {len(cases)} cases"))
    _held(found)
    for name in ("model found as model", "nd7-exec found as nd7-exec", "none found as none"):
        assert found.share(name) >= 0.95, found.failed


def test_a_fifth_set_that_nothing_was_mended_by(capsys: pytest.CaptureFixture[str]) -> None:
    """As the others, and the only one that is still what it was: what the engine gets wrong in it was left wrong.

    On first sight: kernel 153 of 154, others taken for it 1 of 110, targets 146 of 148, remedy 259 of 264, the agent's
    words 12 of 12, nd7-exec 8 of 8.  Mend nothing by it, or gather a sixth: it says what to expect of
    what is not known.
    """
    cases = load("blind_fifth.jsonl")
    assert len(cases) >= 280
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"gathered apart, and unseen: {len(cases)} cases"))
    _held(found)
    for name in ("model found as model", "nd7-exec found as nd7-exec"):
        assert found.share(name) >= 0.95, found.failed


OTHER_NAMES = {
    "names": [("/home/dev", "/home/zoe"), ("/Users/dev", "/Users/ana.b"), ("/other", "/archive-2.d"), ("8080", "9191")],
    "depth": [("/dev/other", "/dev/work/clients/acme/data")],
    "letters": [("/dev/other", "/dev/größe/данные")],
    "dots": [("/dev/other", "/dev/v1.2.3/node.js")],
    "digits": [("/dev/other", "/dev/2026/11")],
    "blanks": [("/dev/other/", "/dev/My Stuff/")],
    "another disk": [("/home/dev/other", "/srv/shared/other"), ("/Users/dev/other", "/Volumes/disk/other")],
    "hosts": [("127.0.0.1", "db.internal")],
    "IPv6": [("127.0.0.1", "[::1]")],
}


@pytest.mark.parametrize("what", OTHER_NAMES)
def test_what_is_learned_is_the_form_and_not_the_name(what: str) -> None:
    """The corpus with other paths, names and hosts in it gives the same figures."""
    cases = []
    for case in load("denials.jsonl"):
        text = json.dumps(case, ensure_ascii=False)
        for old, new in OTHER_NAMES[what]:
            text = text.replace(old, new)
        cases.append(json.loads(text))
    _held(score(cases))
