"""Metrics and labels that the files in deploy/ name: in expressions, legends and texts."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from tests.conftest import ROOT

DEPLOY = ROOT / "deploy"

_METRIC = re.compile(r"\b((?:crdtstream|process)_[a-z0-9_]+|up|ALERTS)\b(?:\{([^}]*)\})?")
_SELECTED = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPED = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")
_SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
_VALUE = re.compile(r"\{\{\s*\$value[^}]*\}\}")


@dataclass(frozen=True, slots=True)
class Use:
    """An expression somewhere.

    Attributes:
        where: for the message of a failing test.
        texts: what is shown with it.
    """

    where: str
    expression: str
    texts: tuple[str, ...] = ()

    @property
    def selected(self) -> dict[str, frozenset[str]]:
        """The metrics that it names, each with the labels by which it selects."""
        found: dict[str, frozenset[str]] = {}
        for name, selectors in _METRIC.findall(self.expression):
            labels = frozenset(_SELECTED.findall(selectors))
            found[name] = found.get(name, frozenset()) | labels
        return found

    @property
    def grouped(self) -> frozenset[str]:
        """Labels by which it groups, and those that its texts show."""
        groups = (group for one in _GROUPED.findall(self.expression) for group in one.split(","))
        shown = (label for text in self.texts for label in _SHOWN.findall(_VALUE.sub("", text)))
        return frozenset(label.strip() for label in (*groups, *shown)) - {""}


def of_alerts() -> Iterator[Use]:
    content = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    for group in content["groups"]:
        for rule in group["rules"]:
            texts = tuple(rule["annotations"].values())
            yield Use(rule["alert"], rule["expr"], texts)


def of_dashboard() -> Iterator[Use]:
    content = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    for panel in content["panels"]:
        for target in panel.get("targets", ()):
            yield Use(panel["title"], target["expr"], (target["legendFormat"],))
    for variable in content["templating"]["list"]:
        if variable["type"] == "query":
            yield _of_variable(variable)


def _of_variable(variable: dict[str, Any]) -> Use:
    """``label_values(metric, label)``."""
    query = variable["query"]["query"]
    name, label = query.removeprefix("label_values(").removesuffix(")").split(", ")
    return Use(f"${variable['name']}", f"count by ({label}) ({name})")


def uses() -> list[Use]:
    return [*of_alerts(), *of_dashboard()]
