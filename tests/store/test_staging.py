"""One contract for all stagings; and what only the one on disk can do wrong."""

import asyncio
import contextlib
import random
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.effects import Merged
from crdtstream.store.connections import PAGE_BYTES, wal_of
from crdtstream.store.errors import ImageError, NoRoomError, StoreError
from crdtstream.store.failpoints import EXIT_STATUS, NO_FAILPOINTS, Armed, Failpoints, refuse
from crdtstream.store.sqlite_staging import (
    AHEAD_BYTES,
    AHEAD_NUMBERS,
    STAGING_FILE,
    SqliteStaging,
    StagedFolder,
)
from crdtstream.store.staging import (
    IMAGES_AT_ONCE,
    MemoryStaging,
    StagedCut,
    Staging,
    make_image,
    staged_state,
)
from tests.harness.regions import Node
from tests.patience import seconds
from tests.store.stagings import (
    SOURCE,
    check_whole,
    cut_of,
    image,
    put,
    stage,
    stage_state,
    staged,
)

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = [*range(3, 300), 500, 7_000, 7_001]
NODES = [number for number in NUMBERS if image(number).kind is Kind.NODE]


@contextlib.asynccontextmanager
async def opened(
    folder: Path, failpoints: Failpoints = NO_FAILPOINTS
) -> AsyncIterator[SqliteStaging]:
    staging = await SqliteStaging.open(folder, failpoints=failpoints)
    try:
        yield staging
    finally:
        await staging.close()


@pytest.fixture(params=["memory", "sqlite"])
async def staging(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Staging]:
    if request.param == "memory":
        yield MemoryStaging()
        return
    async with opened(tmp_path) as found:
        yield found


@contextlib.asynccontextmanager
async def refusing(kind: str, folder: Path, step: str) -> AsyncIterator[Staging]:
    """A staging whose disk refuses a step once."""
    armed = Armed(step, refuse)
    if kind == "memory":
        yield MemoryStaging(armed)
        return
    async with opened(folder, armed) as found:
        yield found


# --- The contract ---------------------------------------------------------------------------------


async def test_nothing_is_staged_at_first(staging: Staging) -> None:
    assert staging.staged() is None
    assert not staging.is_complete
    with pytest.raises(ImageError):
        staging.load(1)
    with pytest.raises(StoreError):
        await staging.fetch([1])
    await staging.discard()


async def test_staged_images_are_read_back_byte_for_byte(staging: Staging) -> None:
    cut = await stage(staging, NUMBERS)
    assert staging.is_complete
    assert staging.staged() == (cut, NUMBERS[-1])
    await check_whole(staging, NUMBERS)


async def test_a_cut_says_where_to_go_on(staging: Staging) -> None:
    cut = cut_of(NUMBERS)
    await staging.begin(cut)
    assert staging.staged() == (cut, 0)
    await put(staging, NUMBERS[:50])
    assert staging.staged() == (cut, NUMBERS[49])
    assert not staging.is_complete
    await put(staging, NUMBERS[50:])
    assert not staging.is_complete
    await staging.finish()
    assert staging.is_complete


async def test_a_new_cut_forgets_the_one_before(staging: Staging) -> None:
    await stage(staging, NUMBERS)
    cut = cut_of([1, 2], cut_id=bytes(16))
    await staging.begin(cut)
    assert staging.staged() == (cut, 0)
    assert not staging.is_complete
    await put(staging, [1, 2])
    await staging.finish()
    await check_whole(staging, [1, 2])
    with pytest.raises(ImageError):
        staging.load(NODES[5])


async def test_the_images_of_each_key_are_read_together_and_again(staging: Staging) -> None:
    await stage(staging, range(1, 50))
    keys = list(staging.by_key())
    owners = [images[0].owner for images in keys]
    assert owners == sorted({image(number).owner for number in range(1, 50)})
    for images in keys:
        assert all(one.owner == images[0].owner for one in images)
        assert staging.of_key(images[0].owner) == images
    found = sorted(one.number for images in keys for one in images)
    assert found == [one for one in range(1, 50) if image(one).kind is not Kind.ROOT]


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
async def test_each_key_of_a_state_is_read_once(
    staging: Staging, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IMAGES_AT_ONCE, "value", at_once)
    keys = [f"k{number}" for number in range(5)]
    node = Node(SOURCE)
    node.run(*(f"XADD {key} 1 f v" for key in keys), "SET s v")
    cut = await stage_state(staging, node.replica)
    state = staged_state(staging, Merged(cut.id, cut.source, cut.vv))
    assert [one.key.decode() for one in state.keys] == [*keys, "s"]


async def test_a_discarded_staging_is_empty(staging: Staging) -> None:
    await stage(staging, NUMBERS)
    await staging.discard()
    assert staging.staged() is None
    assert not staging.is_complete
    with pytest.raises(ImageError):
        staging.load(NODES[0])
    with pytest.raises(StoreError):
        await staging.fetch([NODES[0]])


@pytest.mark.parametrize(
    "numbers",
    [NUMBERS[:-1], NUMBERS[1:], [*NUMBERS, 7_002], []],
    ids=["end", "begin", "more", "no"],
)
async def test_a_cut_with_other_images_than_its_sums_is_never_complete(
    staging: Staging, numbers: Sequence[int]
) -> None:
    await staging.begin(cut_of(NUMBERS))
    await put(staging, numbers)
    with pytest.raises(StoreError, match="othing is staged any more"):
        await staging.finish()
    assert staging.staged() is None
    assert not staging.is_complete
    await stage(staging, NUMBERS)


async def test_a_cut_of_nothing_is_complete(staging: Staging) -> None:
    await stage(staging, [])
    await check_whole(staging, [])


async def test_read_ahead_leaves_out_what_is_not_there(staging: Staging) -> None:
    await stage(staging, NUMBERS)
    first = NODES[0]
    assert sorted(await staging.fetch([first, 99_999, NODES[2]])) == [first, NODES[2]]
    with pytest.raises(StoreError, match="image 99999"):
        await staging.fetch([99_999, first])
    with pytest.raises(ImageError, match="image 99999"):
        staging.load(99_999)


async def test_large_images_are_read_back_one_at_a_time(tmp_path: Path) -> None:
    """Strings of a megabyte: a hundred of them are no more than a few in memory."""
    head = bytes(1 << 20)
    images = [make_image(number, Kind.KEY, number, 0, head, b"") for number in range(1, 101)]
    cut = StagedCut(bytes(16), SOURCE, {SOURCE: 1}, 100, 5050, 100 << 20)
    async with opened(tmp_path) as staging:
        await staging.begin(cut)
        for one in images:
            await staging.put([one])
        tracemalloc.start()
        try:
            await staging.finish()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert staging.is_complete
    assert most < 8 << 20


@pytest.mark.parametrize("wrong", [[5, 5], [5, 4], [2]])
async def test_numbers_must_ascend(staging: Staging, wrong: list[int]) -> None:
    await staging.begin(cut_of([2, 5]))
    await staging.put([staged(2)])
    with pytest.raises(AssertionError):
        await staging.put([staged(number) for number in wrong])
    assert staging.staged() == (cut_of([2, 5]), 2)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("step", ["begin", "put", "finish", "discard"])
async def test_a_step_that_is_refused_can_be_done_again(
    kind: str, step: str, tmp_path: Path
) -> None:
    async with refusing(kind, tmp_path, f"staging.{step}") as staging:
        for call in ("begin", "put", "finish", "discard"):
            with contextlib.suppress(StoreError):
                await do(staging, call)
                continue
            # It was refused: nothing changed that counts.
            await do(staging, call if call != "begin" else "begin")
        assert staging.staged() is None
        await stage(staging, NUMBERS)
        await check_whole(staging, NUMBERS)


async def do(staging: Staging, call: str) -> None:
    match call:
        case "begin":
            await staging.begin(cut_of(NUMBERS))
        case "put":
            await staging.put([staged(number) for number in NUMBERS])
        case "finish":
            await staging.finish()
            await check_whole(staging, NUMBERS)
        case _:
            await staging.discard()


# --- On disk --------------------------------------------------------------------------------------


async def test_discarding_an_empty_staging_makes_no_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as staging:
        await staging.discard()
    assert list(tmp_path.iterdir()) == []


async def test_staged_images_outlive_their_process(tmp_path: Path) -> None:
    async with opened(tmp_path) as staging:
        cut = cut_of(NUMBERS)
        await staging.begin(cut)
        await put(staging, NUMBERS[:50])
    async with opened(tmp_path) as staging:
        assert staging.staged() == (cut, NUMBERS[49])
        await put(staging, NUMBERS[50:])
        await staging.finish()
    async with opened(tmp_path) as staging:
        assert staging.is_complete
        assert staging.staged() == (cut, NUMBERS[-1])
        await check_whole(staging, NUMBERS)
        await staging.discard()
    assert list(tmp_path.iterdir()) == []


# What a process that dies does.
STAGES: Final = """
import asyncio, sys
from pathlib import Path
from crdtstream.store.failpoints import Armed, die
from tests.store.test_staging import stage_on
folder, step, at = sys.argv[1:]
asyncio.run(stage_on(Path(folder), Armed(step, die, at=int(at))))
"""


def killed(folder: Path, step: str, at: int) -> int:
    """Stage in a process that dies at a step; returns its exit status."""
    command = [sys.executable, "-c", STAGES, str(folder), step, str(at)]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=seconds()).returncode


async def stage_on(folder: Path, failpoints: Failpoints = NO_FAILPOINTS) -> None:
    """Go on where the one before stopped."""
    async with opened(folder, failpoints) as staging:
        found = staging.staged()
        if found is None:
            await staging.begin(cut_of(NUMBERS))
        if not staging.is_complete:
            last = 0 if found is None else found[1]
            await put(staging, [number for number in NUMBERS if number > last])
            await staging.finish()
        await check_whole(staging, NUMBERS)


@pytest.mark.parametrize(
    ("step", "at"),
    [
        *(("staging.begin", 1), ("staging.put", 5), ("staging.finish", 1)),
        *(
            pytest.param(*step, marks=pytest.mark.long)
            for step in (
                *(("staging.discard", 1), ("staging.put", 1), ("staging.put-done", 4)),
                *(("staging.complete", 1), ("staging.completed", 1)),
            )
        ),
    ],
)
def test_killed_at_every_step_the_next_process_goes_on(tmp_path: Path, step: str, at: int) -> None:
    assert killed(tmp_path, step, at) == EXIT_STATUS
    asyncio.run(check_found(tmp_path, step, at))
    asyncio.run(stage_on(tmp_path))


async def check_found(folder: Path, step: str, at: int) -> None:
    async with opened(folder) as staging:
        found = staging.staged()
        assert staging.is_complete == (step == "staging.completed")
        if step in ("staging.discard", "staging.begin"):
            assert found is None
        else:
            puts = {"staging.put": at - 1, "staging.put-done": at}.get(step, len(NUMBERS))
            assert found is not None
            assert found[1] == (NUMBERS[min(len(NUMBERS), 40 * puts) - 1] if puts else 0)


async def test_a_full_disk_says_so_and_the_transfer_goes_on_with_room(tmp_path: Path) -> None:
    async with opened(tmp_path) as staging:
        cut = cut_of(NUMBERS)
        await staging.begin(cut)
        await put(staging, NUMBERS[:40])
        assert staging._connection is not None
        await staging._connection.execute("PRAGMA max_page_count = 8")
        with pytest.raises(NoRoomError, match=r"staging\.sqlite: cannot .*check space"):
            await put(staging, NUMBERS[40:])
        found = staging.staged()
        assert found is not None
        assert found[0] == cut
        await staging._connection.execute("PRAGMA max_page_count = 1000000")
        await put(staging, [number for number in NUMBERS if number > found[1]])
        await staging.finish()
        await check_whole(staging, NUMBERS)


async def test_a_damaged_image_is_never_complete(tmp_path: Path) -> None:
    async with opened(tmp_path) as staging:
        await staging.begin(cut_of(NUMBERS))
        await put(staging, NUMBERS)
    for change in (
        f"UPDATE body SET packed = zeroblob(length(packed)) WHERE number = {NODES[7]}",
        f"UPDATE image SET owner = owner + 1 WHERE number = {NUMBERS[8]}",
        f"DELETE FROM body WHERE number = {NODES[7]}",
        f"DELETE FROM image WHERE number = {NUMBERS[8]}",
    ):
        folder = tmp_path / "copy"
        shutil.copytree(tmp_path, folder, ignore=lambda *_: ["copy"])
        with contextlib.closing(sqlite3.connect(folder / STAGING_FILE)) as connection, connection:
            connection.execute(change)
        async with opened(folder) as staging:
            with pytest.raises(StoreError, match="is not what was written"):
                await staging.finish()
            assert staging.staged() is None
        shutil.rmtree(folder)


async def test_a_body_is_checked_whenever_it_is_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as staging:
        await stage(staging, NUMBERS)
        assert staging._connection is not None
        damaged, sound = NODES[7], NODES[8]
        await staging._connection.execute(
            f"UPDATE body SET packed = zeroblob(length(packed)) WHERE number = {damaged}"
        )
        assert sorted(await staging.fetch([sound, damaged])) == [sound]
        with pytest.raises(StoreError, match=rf"image {damaged} is damaged .*backup"):
            await staging.fetch([damaged, sound])
        with pytest.raises(ImageError, match=rf"image {damaged} is damaged .*backup"):
            staging.load(damaged)
        assert staging.load(sound) == staged(sound).body


async def test_bodies_that_follow_one_another_are_read_ahead_and_no_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as staging:
        await stage(staging, NUMBERS)
        for number in (NODES[-1], NODES[70], NODES[4], NODES[5]):
            assert staging.load(number) == staged(number).body
        assert staging._bodies is not None
        assert list(staging._bodies._ahead) == NODES[6 : 5 + AHEAD_NUMBERS.value]
        for number in NODES[6:]:
            assert staging.load(number) == staged(number).body


async def test_no_more_bytes_than_are_allowed_are_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [len(staged(number).body) for number in NODES]
    at = next(at for at in range(1, len(NODES)) if sizes[at + 1] <= sizes[at] < sizes[at + 2])
    monkeypatch.setattr(AHEAD_BYTES, "value", sizes[at])
    async with opened(tmp_path) as staging:
        await stage(staging, NUMBERS)
        for number in NODES[at - 1 : at + 1]:
            staging.load(number)
        assert staging._bodies is not None
        assert list(staging._bodies._ahead) == [NODES[at + 1]]
        # The one after the next is larger than all that may be read ahead.
        staging.load(NODES[at + 1])
        staging.load(NODES[at])
        monkeypatch.setattr(AHEAD_BYTES, "value", sizes[at + 2] - 1)
        staging.load(NODES[at + 1])
        assert NODES[at + 2] not in staging._bodies._ahead
        assert staging.load(NODES[at + 2]) == staged(NODES[at + 2]).body


async def test_damage_hides_no_bodies_before_it(tmp_path: Path) -> None:
    """A page of the file cannot be read: of bodies in a row no more are lost than one by one."""
    async with opened(tmp_path) as staging:
        await stage(staging, NUMBERS)
    file = tmp_path / STAGING_FILE
    content = bytearray(file.read_bytes())
    page = content.index(staged(NODES[50]).body) // PAGE_BYTES * PAGE_BYTES
    content[page : page + PAGE_BYTES] = bytes(PAGE_BYTES)
    file.write_bytes(content)

    def readable(load: Callable[[int], bytes]) -> list[int]:
        found = []
        for number in NODES:
            with contextlib.suppress(ImageError):
                assert load(number) == staged(number).body
                found.append(number)
        return found

    one_by_one = readable(StagedFolder(tmp_path).load)
    async with opened(tmp_path) as staging:
        assert readable(staging.load) == one_by_one
    assert NODES[0] in one_by_one
    assert NODES[50] not in one_by_one


@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("damage", ["no database", "no cut", "half"])
async def test_a_damaged_staging_is_discarded_if_it_was_never_complete(
    tmp_path: Path, damage: str, is_complete: bool
) -> None:
    path = tmp_path / STAGING_FILE
    async with opened(tmp_path) as staging:
        if is_complete:
            await stage(staging, NUMBERS)
        else:
            await staging.begin(cut_of(NUMBERS))
            await put(staging, NUMBERS)
    content = path.read_bytes()
    match damage:
        case "no database":
            path.write_bytes(bytes(40) + content[40:])
        case "half":
            path.write_bytes(content[:4096] + bytes(4096) + content[8192:])
        case _:
            with contextlib.closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("DELETE FROM cut")
    if is_complete:
        with pytest.raises(StoreError, match=r"staging\.sqlite: .*backup"):
            async with opened(tmp_path):
                pass
        assert path.exists()
        return
    async with opened(tmp_path) as staging:
        assert staging.staged() is None
        assert not path.exists()
        await stage(staging, NUMBERS)


@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize(
    "per_page",
    [
        pytest.param(2, id="some"),
        pytest.param(60, id="many", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
async def test_a_changed_byte_is_harmless_or_noticed(
    tmp_path: Path, per_page: int, is_complete: bool
) -> None:
    """For every byte: nothing is ever read that differs from the images that were put."""
    numbers = NUMBERS[:80]
    async with opened(tmp_path) as staging:
        await staging.begin(cut_of(numbers))
        await put(staging, numbers)
        if is_complete:
            await staging.finish()
    assert not wal_of(tmp_path / STAGING_FILE).exists()
    content = (tmp_path / STAGING_FILE).read_bytes()
    rng = random.Random(4711)
    noticed = harmless = 0
    places = [60, 63, *rng.choices(range(100), k=5 * per_page)]
    for page in range(0, len(content), 4096):
        places += [rng.randrange(page, page + 4096) for _ in range(per_page)]
        places += [rng.randrange(page, page + 60) for _ in range(per_page)]
    folder = tmp_path / "copy"
    folder.mkdir()
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        (folder / STAGING_FILE).write_bytes(changed)
        try:
            async with opened(folder) as staging:
                if not is_complete:
                    # Begun anew if it was noticed.
                    assert not staging.is_complete
                    noticed += staging.staged() is None
                    if staging.staged() is None:
                        continue
                    await staging.finish()
                assert staging.is_complete, place
                await check_whole(staging, numbers)
        except StoreError:
            noticed += 1
        else:
            harmless += 1
    assert noticed
    assert harmless
