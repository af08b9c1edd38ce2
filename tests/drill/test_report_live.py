"""A drill while it runs: what a person sees on a terminal, and what a log gets without one."""

from io import StringIO

import pyte
import pytest
from rich.console import Console

from crdtstream.drill.outcome import Mark, MarkKind
from crdtstream.drill.report.live import SAMPLES_MAX, LiveSample, LiveView

FAULT = Mark(at=20.0, kind=MarkKind.FAULT, what="region 1: kill -9")
END = Mark(at=35.0, kind=MarkKind.END, what="over: region 1: kill -9")
PLANNED = [(20.0, "region 1: kill -9"), (35.0, "region 1: started again")]


def sample(at: float, *, note: str = "") -> LiveSample:
    """Three regions; region 1 is gone from 20 to 35."""
    is_gone = 20 <= at < 35

    def lag(puller: int, peer: int) -> float | None:
        if is_gone and puller == 1:
            return None
        return 1_000 * (at - 20) if is_gone and peer == 1 else 9.0

    return LiveSample(
        at=at,
        acknowledged_per_s={1: 0.0 if is_gone else 100.0, 2: 150.0, 3: 147.0},
        delivered_per_s=280.0,
        lag_ms={(one, two): lag(one, two) for one in (1, 2, 3) for two in (1, 2, 3) if one != two},
        errors=17 if at >= 20 else 0,
        note=note,
        acknowledged=int(300 * at),
        delivered=int(290 * at),
    )


def terminal(width: int = 80) -> Console:
    return Console(file=StringIO(), force_terminal=True, width=width, height=30)


def view_at(seconds: float, console: Console) -> LiveView:
    """A view of a drill that has run for some seconds; it is not being shown."""
    view = LiveView(console, "region-loss", PLANNED, 60.0)
    for mark in (FAULT, END):
        if mark.at <= seconds:
            view.mark(mark)
    for at in range(int(seconds) + 1):
        view.update(sample(float(at)))
    return view


def rows_at(seconds: float, width: int = 80) -> dict[str, str]:
    """The picture's rows by label."""
    console = Console(file=StringIO(), width=width)
    view = view_at(seconds, console)
    with console.capture() as captured:
        console.print(view.picture())
    lines = captured.get().splitlines()
    assert all(len(line) <= width for line in lines)
    return {line[:16].strip(): line[17:].rstrip() for line in lines}


def test_faults_stand_on_a_line_of_time_with_a_cursor() -> None:
    before, during, after = (rows_at(at)["faults"] for at in (10, 25, 50))
    assert before == before.replace("▼", "").replace("▲", "")
    assert before.count("▽") == 2
    assert (during.count("▼"), during.count("▲"), during.count("▽")) == (1, 0, 1)
    assert (after.count("▼"), after.count("▲"), after.count("▽")) == (1, 1, 0)
    places = [row.index("●") for row in (before, during, after)]
    assert places == sorted(places)
    assert during.index("▼") == before.index("▽"), "where it was planned"


def test_the_current_and_the_next_event_are_shown() -> None:
    assert rows_at(10)["next"] == "in 10 s: region 1: kill -9"
    assert rows_at(27)["now"] == "region 1: kill -9, for 7 s"
    assert rows_at(27)["next"] == "in 8 s: region 1: started again"
    assert rows_at(40)["now"] == "over: region 1: kill -9, 5 s ago"
    assert rows_at(40)["next"] == "in 20 s: the load ends"
    assert rows_at(61)["next"] == "regions become equal; then the verdict"


def test_bars_go_with_what_they_show_and_stand_below_the_fault() -> None:
    rows = rows_at(30)
    fault = rows["faults"].index("▼")
    bars = rows["region 1"].split()[0]
    assert set(bars[:fault]) == {"▆"}
    assert set(bars[fault:]) == {"▁"}
    assert set(rows["region 2"].split()[0]) == {"█"}
    assert rows["region 1"].split()[-1] == "0"
    lag = rows["1 → 2"].split()[0]
    assert lag[:fault] == "▁" * fault
    assert list(lag) == sorted(lag)
    assert lag[-1] == "█"
    assert rows["1 → 2"].split()[-1] == "10,000"


def test_a_stall_shorter_than_a_column_is_seen() -> None:
    console = Console(file=StringIO(), width=80)
    view = LiveView(console, "drill", [], 600.0)
    for at in range(600):
        rate = 0.0 if at == 301 else 100.0
        lag = 9_000.0 if at == 301 else 1.0
        view.update(LiveSample(float(at), {1: rate}, rate, {(1, 2): lag}, 0))
    with console.capture() as captured:
        console.print(view.picture())
    rows = {
        line[:16].strip(): line[17:].split()[0]
        for line in captured.get().splitlines()
        if "▁" in line
    }
    assert rows["region 1"].count("▁") == rows["delivered /s"].count("▁") == 1
    assert rows["2 → 1"].count("█") == 1


def test_a_link_that_is_not_heard_of_is_dotted() -> None:
    rows = rows_at(30)
    fault = rows["faults"].index("▼")
    bars, value = rows["2 → 1"].split()
    assert set(bars[fault:]) == {"·"}
    assert value == "–"


def test_counters_are_the_newest() -> None:
    assert rows_at(30)["so far"] == "acknowledged 9,000, delivered 8,700, errors 17"


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_picture_is_as_wide_as_the_terminal(width: int) -> None:
    console = Console(file=StringIO(), width=width)
    view = view_at(30, console)
    with console.capture() as captured:
        console.print(view.picture())
    assert max(map(len, captured.get().splitlines())) <= width


def test_a_drill_that_takes_longer_still_fits() -> None:
    rows = rows_at(150)
    assert rows["faults"].rstrip().endswith("●")


def test_nothing_is_known_at_first() -> None:
    console = Console(file=StringIO(), width=80)
    with console.capture() as captured:
        console.print(LiveView(console, "drill", [], 0.0).picture())
    assert "drill  0:00 of 0:00" in captured.get()


def test_of_many_links_the_worst_are_shown() -> None:
    console = Console(file=StringIO(), width=80)
    view = LiveView(console, "drill", [], 10.0)
    lag = {(1, peer): float(peer) for peer in range(2, 30)}
    view.update(LiveSample(1.0, dict.fromkeys(range(1, 30), 1.0), 1.0, lag, 0))
    with console.capture() as captured:
        console.print(view.picture())
    text = captured.get()
    assert "29 → 1" in text
    assert "22 → 1" in text
    assert "21 → 1" not in text
    assert "and 20 more" in text
    assert "and 21 more" in text
    assert len(text.splitlines()) < 30


def test_a_long_drill_does_not_fill_memory_and_keeps_the_newest() -> None:
    console = Console(file=StringIO(), width=80)
    view = LiveView(console, "drill", [], 10.0)
    for at in range(3 * SAMPLES_MAX):
        view.update(sample(at / 10))
        assert len(view._samples) <= SAMPLES_MAX
    assert view._samples[0].at < 10
    assert view._samples[-1].at == (3 * SAMPLES_MAX - 1) / 10
    with console.capture() as captured:
        console.print(view.picture())
    assert "9:59 of" in captured.get()


def shown(console: Console) -> list[str]:
    """The text that a person sees of all output so far."""
    assert isinstance(console.file, StringIO)
    screen = pyte.Screen(80, 30)
    pyte.Stream(screen).feed(console.file.getvalue().replace("\n", "\r\n"))
    return [line.rstrip() for line in screen.display]


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.setenv("TERM", "xterm-256color")
    return terminal()


def test_on_a_terminal_one_picture_is_drawn_again_and_gone_at_the_end(
    on_terminal: Console,
) -> None:
    with LiveView(on_terminal, "region-loss", PLANNED, 60.0) as view:
        assert view._live is not None
        for at in range(30):
            if at == 20:
                view.mark(FAULT)
            view.update(sample(float(at)))
            view._live.refresh()
        screen = shown(on_terminal)
        assert sum("region-loss" in line for line in screen) == 1
        assert "region-loss  0:29 of 1:00" in screen
        assert any(line.startswith("now") and "kill -9, for 9 s" in line for line in screen)
    assert not any(shown(on_terminal))


def test_an_error_leaves_the_terminal_as_it_was(on_terminal: Console) -> None:
    def interrupted() -> None:
        with LiveView(on_terminal, "region-loss", PLANNED, 60.0) as view:
            view.update(sample(1.0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert isinstance(on_terminal.file, StringIO)
    text = on_terminal.file.getvalue()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is shown again"


def test_before_the_load_there_is_nothing_to_count() -> None:
    file = StringIO()
    with LiveView(Console(file=file, width=80), "drill", [], 60.0) as view:
        view.update(LiveSample(-0.3, {}, 0.0, {(1, 2): None}, 0))
    assert file.getvalue().splitlines()[1:] == [
        "    0.0 s  acknowledged 0 /s, delivered 0 /s, errors 0"
    ]


def test_without_a_terminal_there_is_a_line_per_mark_and_one_each_five_seconds() -> None:
    file = StringIO()
    with LiveView(Console(file=file, width=80), "region-loss", PLANNED, 60.0) as view:
        for quarter in range(4 * 30 + 1):
            at = quarter / 4
            if at == 20:
                view.mark(FAULT)
            view.update(sample(at, note="a [bold]note[/bold]" if at > 28 else ""))
    lines = file.getvalue().splitlines()
    assert "\x1b" not in file.getvalue()
    assert lines[0] == "region-loss: 60 s of load"
    assert [line for line in lines if "fault: region 1: kill -9" in line] == [
        "   20.0 s  fault: region 1: kill -9"
    ]
    assert [line.split()[0] for line in lines if "delivered" in line] == [
        f"{at}.0" for at in range(0, 31, 5)
    ]
    assert lines[-1] == (
        "   30.0 s  acknowledged 297 /s (1: 0, 2: 150, 3: 147), delivered 280 /s, highest lag"
        " 10,000 ms (1 → 2), errors 17"
    )
    assert sum("a [bold]note[/bold]" in line for line in lines) == 1
