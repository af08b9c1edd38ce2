"""Tunables: settings that change while a node runs."""

from crdtstream.region.tuning import tunables_of
from crdtstream.settings.node_settings import NodeSettings
from tests.harness.driven import make_region


def test_every_tunable_is_a_setting() -> None:
    """A node reads them at its start, and would die of one that is none."""
    names = {name.replace("-", "_") for name in tunables_of(make_region())}
    assert names
    assert names - NodeSettings.model_fields.keys() == set()
