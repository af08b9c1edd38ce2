"""The picture of a database: regions, links and rates, from the statuses of nodes."""

from crdtstream.console.attention import notices_of
from crdtstream.console.cells import cells_of, changed, curves_of
from crdtstream.console.picture import NodeFigures, Picture, Rates, Sample, picture_of
from crdtstream.v1 import admin_pb2 as pb
from tests.console.shown import link, members, status


def picture(
    own: pb.StatusReply | None = None,
    others: dict[int, pb.StatusReply | str] | None = None,
    *,
    own_before: pb.StatusReply | None = None,
    known: pb.MembersReply | None = None,
    node: NodeFigures | None = None,
    rates: Rates | None = None,
) -> Picture:
    """A picture of three regions that are well, except what is given."""
    own = own or status()
    answers = {2: status(2), 3: status(3), **(others or {})}
    sample = Sample(own, answers, own_before or own, known or members(), node or NodeFigures())
    return picture_of(sample, rates or Rates())


def test_there_is_a_link_from_each_region_to_each_other() -> None:
    assert [one.name for one in picture().links] == ["2-1", "3-1", "1-2", "3-2", "1-3", "2-3"]


def test_a_region_says_itself_where_clients_reach_it_if_the_members_do_not() -> None:
    known = members()
    known.members[2].resp_address = "announced:6383"
    reports: dict[int, pb.StatusReply | str] = {
        one: status(one, resp_address=f"own:638{one}") for one in (2, 3)
    }
    found = picture(others=reports, known=known)
    assert [one.resp_address for one in found.regions] == ["", "own:6382", "announced:6383"]


def test_a_link_is_as_the_region_that_pulls_reports_it() -> None:
    found = picture(others={2: status(2, link(1, lag_ms=80), link(3))})
    cells = cells_of(found)
    assert cells["link.1-2.lag"] == "80 ms"
    assert cells["link.2-1.lag"] == cells["link.2-1.label"] == "7 ms"


def test_a_region_without_an_answer_has_its_reason_and_its_links_are_unknown() -> None:
    found = picture(others={3: "no answer within 2 s"})
    cells = cells_of(found)
    assert cells["region.3.state"] == "no answer"
    assert cells["region.3.note"] == "no answer within 2 s"
    assert cells["link.1-3.state"] == cells["link.2-3.state"] == "unknown"
    assert cells["link.3-1.state"] == "up"
    assert cells["total.regions"] == "2 of 3"


def test_each_region_has_the_size_of_its_log_and_the_address_of_its_console() -> None:
    known = members()
    known.members[1].http_address = "announced:8382"
    report = status(3, log_bytes=3 << 20, http_address="own:8383", http_tls=True)
    cells = cells_of(picture(others={3: report}, known=known))
    assert cells["region.3.log"] == "3.0 MiB"
    assert cells["region.2.url"] == "http://announced:8382"
    assert cells["region.3.url"] == "https://own:8383"
    assert "region.1.url" not in cells
    cells = cells_of(picture(others={3: "no answer within 2 s"}, known=known))
    assert cells["region.3.log"] == "–"
    assert "region.3.url" not in cells


def test_a_node_that_listens_everywhere_has_its_console_where_its_peers_reach_it() -> None:
    known = members()
    known.members[1].grpc_address = "eu.example:7382"
    report = status(2, http_address="0.0.0.0:8382", grpc_address="0.0.0.0:7382")
    cells = cells_of(picture(others={2: report}, known=known))
    assert cells["region.2.url"] == "http://eu.example:8382"


def test_a_region_lacks_what_another_one_has_applied() -> None:
    own = status(1, vv={1: 10, 2: 5})
    found = picture(own, {2: status(2, vv={1: 7, 2: 9}), 3: status(3, vv={1: 10, 2: 9})})
    assert [one.lacks for one in found.regions] == [4, 3, 0]


def test_writes_since_the_others_were_asked_are_not_lacking_there() -> None:
    before, now = status(1, vv={1: 10}), status(1, vv={1: 500})
    answers: dict[int, pb.StatusReply | str] = {
        region: status(region, vv={1: 10}) for region in (2, 3)
    }
    found = picture(now, answers, own_before=before)
    assert [one.lacks for one in found.regions] == [0, 0, 0]


def test_a_removed_region_has_no_links() -> None:
    known = members(1, 2)
    known.members.append(pb.MemberStatus(region=3, status=pb.MemberStatus.Status.REMOVED, cut=12))
    found = picture(known=known)
    assert [one.name for one in found.links] == ["2-1", "1-2"]
    assert found.regions[2].state == "removed"
    assert cells_of(found)["total.regions"] == "2 of 2"


# --- Rates ----------------------------------------------------------------------------------------


def test_a_rate_is_by_the_clock_of_the_region_that_counts() -> None:
    rates = Rates()
    assert rates.note("2:issued", 100, 5_000) is None
    assert rates.note("2:issued", 300, 9_000) == 50
    # The same answer, used again.
    assert rates.note("2:issued", 300, 9_000) == 50


def test_a_counter_that_began_again_has_no_rate() -> None:
    rates = Rates()
    rates.note("2:issued", 100, 5_000)
    assert rates.note("2:issued", 3, 6_000) is None
    assert rates.note("2:issued", 5, 7_000) == 2


def test_a_rate_is_not_of_a_time_in_which_nobody_watched() -> None:
    rates = Rates()
    rates.note("2:issued", 100, 5_000)
    assert rates.note("2:issued", 9_000, 3_605_000) is None


def test_counters_of_regions_that_are_gone_are_forgotten() -> None:
    rates = Rates()
    picture(rates=rates)
    alone = members(1)
    picture(known=alone, rates=rates)
    later = status(2, effects_issued=50, now_ms=1_795_000_009_000)
    found = picture(others={2: later}, rates=rates)
    assert found.regions[1].writes_rate is None


# --- Texts ----------------------------------------------------------------------------------------


def test_a_change_has_the_texts_that_are_new_or_others() -> None:
    assert changed({"a": 1, "b": None}, {"a": 1, "b": 2, "c": None}) == {"b": 2, "c": None}


def test_the_lag_of_a_link_is_for_how_long_the_region_may_lack_something() -> None:
    # The newest batch took 7 ms; one before it is still waited for.
    cells = cells_of(picture(status(1, link(2, behind_ms=15_000), link(3, behind_ms=0))))
    assert cells["link.2-1.lag"] == "15.0 s"
    assert cells["link.3-1.lag"] == "0 ms"
    assert cells["total.lag"] == "15.0 s"


def test_a_link_that_is_down_shows_how_old_its_data_is_and_why() -> None:
    down = link(2, state=pb.LinkStatus.State.BACKOFF, behind_ms=9_000, error="connection refused")
    found = picture(status(1, down, link(3)))
    assert cells_of(found)["link.2-1.lag"] == "9.0 s"
    assert cells_of(found)["link.2-1.note"] == "connection refused"
    assert curves_of(found)["2-1.lag"] == 9_000
    assert curves_of(found)["3-1.lag"] == 7
    assert curves_of(picture(others={3: "no answer"}))["1-3.lag"] is None


def test_a_bootstrap_shows_how_far_it_is() -> None:
    copying = pb.BootstrapStatus(
        phase=pb.BootstrapStatus.Phase.COPYING,
        source=3,
        bytes_done=1 << 20,
        bytes=4 << 20,
        seconds_left=90,
    )
    cells = cells_of(picture(status(1, bootstrap=copying)))
    name = "region.1.bootstrap"
    assert cells[f"{name}.phase"] == "copying"
    assert cells[f"{name}.source"] == "region 3"
    assert cells[f"{name}.done"] == "1.0 MiB of 4.0 MiB"
    assert cells[f"{name}.share"] == "25 %"
    assert cells[f"{name}.left"] == "1 min 30 s"


def test_other_members_or_links_are_another_shape() -> None:
    assert picture().shape == picture(status(1, keys=5)).shape
    assert picture().shape != picture(known=members(1, 2)).shape


def test_nothing_needs_attention_while_all_is_well() -> None:
    assert notices_of(picture()) == []
