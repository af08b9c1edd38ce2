"""The dashboard: its expressions are PromQL, and what the files name is found in them."""

import json
import re
from pathlib import Path

import yaml

from tests.conftest import program
from tests.metrics.expressions import DEPLOY, Use, of_dashboard
from tests.metrics.test_alerts import check


def test_promtool_takes_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    """As rules, with Grafana's variables put in."""
    promtool = program("promtool")
    rules = [
        {
            "record": f"panel:{number}",
            "expr": use.expression.replace("$__rate_interval", "1m").replace("$region", ".*"),
        }
        for number, use in enumerate(of_dashboard())
    ]
    assert len(rules) > 40
    path = tmp_path / "dashboard.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    check(promtool, "check", "rules", path)


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_panel_asks_the_chosen_source_for_the_chosen_regions() -> None:
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    for panel in panels:
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
            for selectors in re.findall(r"\{([^}]*)\}", target["expr"]):
                assert 'region=~"$region"' in selectors, panel["title"]


def test_names_in_an_expression_are_found() -> None:
    use = Use(
        "here",
        'max by (origin) (rate(crdtstream_a_total{kind="x",peer!="2"}[5m]))'
        ' / on (region) up{job="crdtstream"} > 1',
        ("{{ $labels.region }} has {{ $value | humanize }}", "{{peer}}"),
    )
    assert use.selected == {
        "crdtstream_a_total": frozenset({"kind", "peer"}),
        "up": frozenset({"job"}),
    }
    assert use.grouped == {"origin", "region", "peer"}
