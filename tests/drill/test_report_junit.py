"""JUnit XML as CI systems read it."""

from xml.etree import ElementTree as ET

import pytest
from junitparser import Error, Failure, JUnitXml

from crdtstream.drill.outcome import Report
from crdtstream.drill.report.junit import junit_of
from tests.drill.making import DRILLS, a_failed_run, a_run, all_drills, an_aborted_run
from tests.page.elements import HOSTILE

# By element: its attributes and its children, as the schema of Jenkins' xUnit plug-in has them.
SCHEMA: dict[str, tuple[set[str], list[str]]] = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, ["testsuite"]),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
        ["properties", "testcase"],
    ),
    "properties": (set(), ["property"]),
    "property": ({"name", "value"}, []),
    "testcase": ({"name", "classname", "time"}, ["failure", "error", "system-out"]),
    "failure": ({"message", "type"}, []),
    "error": ({"message", "type"}, []),
    "system-out": (set(), []),
}


@pytest.mark.parametrize(
    "report",
    [
        Report(runs=[]),
        Report(runs=[a_run()]),
        Report(runs=[a_run(environment={}, began="yesterday")]),
        all_drills(),
    ],
    ids=["no runs", "one", "no environment", "all"],
)
def test_elements_are_those_of_the_schema(report: Report) -> None:
    root = ET.fromstring(junit_of(report))
    for element in root.iter():
        attributes, children = SCHEMA[element.tag]
        assert element.attrib.keys() <= attributes
        found = [child.tag for child in element]
        assert set(found) <= set(children)
        assert found == sorted(found, key=children.index), "the schema has an order"
        if element.tag == "properties":
            assert found, "properties must not be empty"


def test_one_test_case_per_drill_in_order_with_its_outcome() -> None:
    (suite,) = JUnitXml.fromstring(junit_of(all_drills()))
    cases = list(suite)

    assert [case.name for case in cases] == list(DRILLS)
    assert (suite.tests, suite.failures, suite.errors) == (13, 1, 1)
    assert suite.timestamp == "2026-11-22T10:00:00"
    outcomes = {case.name: [type(one) for one in case.result] for case in cases}
    assert outcomes.pop("partition-heal") == [Failure]
    assert outcomes.pop("slow-link") == [Error]
    assert set(map(tuple, outcomes.values())) == {()}
    assert suite.time == pytest.approx(sum(case.time for case in cases), abs=0.01)


def test_a_failure_says_which_checks_are_not_met_and_what_was_found() -> None:
    (suite,) = JUnitXml.fromstring(junit_of(Report(runs=[a_failed_run()])))
    ((failure,),) = [case.result for case in suite]
    assert failure.message == "not met: lost"
    assert failure.text.splitlines()[0] == "lost: expected 0, found 2"
    assert "1795241607213-1" in failure.text
    assert "recovery: expected" not in failure.text


def test_an_aborted_run_is_an_error_and_says_why() -> None:
    (suite,) = JUnitXml.fromstring(junit_of(Report(runs=[an_aborted_run()])))
    ((error,),) = [case.result for case in suite]
    assert error.message == "region 2 does not answer: start it, or leave it out"
    assert error.message in error.text


def test_of_a_long_problem_the_first_line_is_the_message() -> None:
    run = an_aborted_run().model_copy(update={"problem": "the load ended:\nTraceback\nKeyError"})
    (suite,) = JUnitXml.fromstring(junit_of(Report(runs=[run])))
    ((error,),) = [case.result for case in suite]
    assert error.message == "the load ended:"
    assert error.text.splitlines()[:3] == ["the load ended:", "Traceback", "KeyError"]


def test_the_environment_stands_once_and_figures_by_drill() -> None:
    other = a_run("other", environment={**a_run().environment, "cores": "64"})
    (suite,) = JUnitXml.fromstring(junit_of(Report(runs=[a_run(), other])))
    found = {one.name: one.value for one in suite.properties()}
    assert found["python"] == "3.11.7"
    assert (found["region-loss.cores"], found["other.cores"]) == ("2", "64")
    assert found["region-loss.recovery_s"] == "4.210"
    assert found["region-loss.acknowledged"] == "17462"


def test_hostile_texts_stay_text() -> None:
    run = a_failed_run(
        HOSTILE, about=f"]]> {HOSTILE}", findings=[HOSTILE], environment={HOSTILE: HOSTILE}
    )
    root = ET.fromstring(junit_of(Report(runs=[run])))
    shown = HOSTILE.replace("\u202e", "\ufffd").replace("\x00", "\ufffd")
    (case,) = root.iter("testcase")
    assert case.get("name") == shown
    assert shown in (case.findtext("failure") or "")
    assert shown in (case.findtext("system-out") or "")
