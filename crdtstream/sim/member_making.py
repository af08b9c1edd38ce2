"""Making histories in which members change, from a seed.

By themselves the steps of a change seldom come together, so most changes are made by *stories*: a
region joins, a region is removed while it lives, two operators want something at once.  In each,
faults come between any two steps, and the story goes on or not, as it may.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import Change, Remove
from crdtstream.sim.branches import is_active, is_apart, kept_of, members_of
from crdtstream.sim.history import History, Step
from crdtstream.sim.simulated_node import SimNode

# Number of regions that ever exist.
REGIONS_MAX: Final = 6
# This share of the steps is followed by one of a change, and this share by a story.
STEPS_SHARE: Final = 0.12
STORIES_SHARE: Final = 0.08
# And this share is of the ordinary kind.
ORDINARY_SHARE: Final = 0.4
# This share of the steps of a story is followed by a fault.
TROUBLES: Final = (0.0, 0.02, 0.1)
# This share of the small changes revokes a certificate.
REVOKED_SHARE: Final = 0.5
WRITES_MAX: Final = 5
MEETINGS_MAX: Final = 6
# Number of times that an operator asks a region that is to be sealed.
SEALED_ASKS_MAX: Final = 10
# The parts of a settled tick, so that a fault comes between any two.
PARTS: Final = ("tick", "commit", "folder", "apply", "sync", "time")


class MemberMaker:
    """The steps of one world."""

    def __init__(self, seed: int, words: Sequence[str]) -> None:
        """Steps of a seed.

        Args:
            words: commands that clients write.
        """
        self._random = random = Random(f"members {seed}")
        self._words = words
        self._trouble = random.choice(TROUBLES)
        # In some worlds two parts may go on without each other, on purpose.
        self._splits = random.random() < 0.4
        # If logs are cut, they lack what was put back: so in those worlds folders are lost instead.
        self.cuts_log = random.random() < 0.5
        stories: dict[Callable[[History], None], int] = {
            self._join: 4,
            self._remove_dead: 3,
            self._remove_living: 4,
            self._two_at_once: 3,
            self._change_and_put_back: 3,
            self._move: 1,
            self._come_back: 2,
            self._relay: 3,
            self._remove_sealed: 4,
            self._salvage: 3,
        }
        if self._splits:
            stories[self._split] = 4
        self._stories = {
            story: random.choice((0, weight, weight, 2 * weight))
            for story, weight in stories.items()
        }

    # --- What the maker asks for ----------------------------------------------------------------

    def goes_on(self, history: History) -> bool:
        """Take a step or a story, perhaps; return True if no step of the ordinary kind follows."""
        random = self._random
        if random.random() < STEPS_SHARE:
            self._do(history, self._step(history))
        if random.random() < STORIES_SHARE:
            stories = [story for story, weight in self._stories.items() if weight]
            if stories:
                weights = [self._stories[story] for story in stories]
                (story,) = random.choices(stories, weights)
                story(history)
        return random.random() >= ORDINARY_SHARE

    def _step(self, history: History) -> Step:
        random, numbers = self._random, list(history.world.nodes)
        region, other = random.choice(numbers), random.choice(numbers)
        kinds = {
            "add": 2,
            "join": 4,
            "update": 1,
            "revoke": 1,
            "remove": 1,
            "letter": 8,
            "lose letters": 2,
            "bootstrap": 6,
            "checkpoint": 4,
            "folder": 4,
            "token": 3,
            "wait for": 3,
        }
        if self.cuts_log:
            kinds["cut log"] = 3
        (kind,) = random.choices(list(kinds), list(kinds.values()))
        match kind:
            case "add" if not self._may_add(history):
                return ("tick", region)
            case "add":
                return (kind, region, random.randrange(1 << 20))
            case "update":
                return (kind, region, other)
            case "revoke":
                return (kind, region, random.randint(1, 4), random.choice((-3, 0, 90)))
            case "remove" if not self._may_remove(history, other):
                return ("tick", region)
            case "remove":
                return (kind, region, other, random.randrange(4))
            case "wait for":
                return (kind, region, random.randrange(8))
            case "letter":
                return (kind, region, other, random.randrange(4))
            case "bootstrap" | "checkpoint":
                return (kind, region, random.choice((1, 3, 10, 100)))
            case _:
                return (kind, region)

    # --- What may be done -----------------------------------------------------------------------

    def _members(self, history: History) -> list[RegionId]:
        """Regions that belong together, and are up."""
        return [node.number for node in kept_of(history.world.up())]

    def _others(self, history: History, region: RegionId) -> list[RegionId]:
        return [one for one in self._members(history) if one != region]

    def _may_add(self, history: History) -> bool:
        used = {
            one.region for node in history.world.up() for one in members_of(node).regions
        } | history.world.nodes.keys()
        return len(used) < REGIONS_MAX

    def _may_remove(self, history: History, region: RegionId) -> bool:
        """True if two others are left."""
        return len(self._others(history, region)) >= 2

    def _may_die(self, history: History, region: RegionId) -> bool:
        """True if another region is left that can have it removed.

        That one is active, has not gone on without this region, keeps its votes, and has heard of
        what was decided.  It is not about to be removed itself, and no accepted change may remove
        it.
        """
        world = history.world
        lost = world.nodes[region]
        return any(
            number != region
            and number not in world.dead
            and is_active(node)
            and not is_apart(node, lost)
            and _keeps_votes(node)
            and _has_all_decided(node, lost, history.member_checks.was_decided)
            and node.region.membership.sealing.wanted is None
            and not any(_accepts_removal(one, number) for one in world.nodes.values())
            for number, node in world.nodes.items()
        )

    def may_put_back(self, history: History, region: RegionId) -> bool:
        """True if the region can be helped.

        One that joins loses its token as well, so it has to be added once more.  And a region that
        is down may be the only one that knows of the joining.
        """
        world = history.world
        return self._may_die(history, region) and all(
            region in members_of(node).active or region not in members_of(node).remaining
            for number, node in world.nodes.items()
            if number not in world.dead
        )

    # --- Stories --------------------------------------------------------------------------------

    def _join(self, history: History) -> None:
        """Add a region; its node joins, and gets everything; the log may be cut before."""
        random = self._random
        members = self._members(history)
        if not members or not self._may_add(history):
            return
        coordinator = random.choice(members)
        self._write(history, members)
        if self.cuts_log and random.random() < 0.7:
            for region in members:
                self._do(history, ("checkpoint", region, 100))
                self._do(history, ("cut log", region))
        self._do(history, ("add", coordinator, random.randrange(1 << 20)))
        self._meet_often(history, members)
        before = history.world.nodes.keys()
        for region in random.sample(members, len(members)):
            self._do(history, ("join", region))
            if history.world.nodes.keys() != before:
                break
        joined = [one for one in history.world.nodes if one not in before]
        for _ in range(random.randint(0, MEETINGS_MAX)):
            self._meet(history, [*members, *joined])
            self._write(history, members)
            for region in joined:
                self._do(history, ("bootstrap", region, random.choice((1, 3, 10, 100))))
            if joined and random.random() < 0.2:
                self._be_in_trouble(history, random.choice([*joined, *members]))

    def _remove_dead(self, history: History) -> None:
        """Remove a region that is gone for good."""
        random = self._random
        members = self._members(history)
        if len(members) < 2:
            return
        dead = random.choice(members)
        if not self._may_die(history, dead):
            return
        self._write(history, [dead])
        # Its last effects may be in one region only.
        self._meet(history, random.sample(members, random.randint(1, len(members))))
        self._write(history, [dead])
        others = [one for one in members if one != dead]
        if not self._may_die(history, dead):
            return
        self._take_token(history, dead, others)
        self._do(history, ("die", dead))
        self._write(history, others)
        self._remove(history, random.choice(others), dead)
        self._meet_often(history, others)

    def _remove_living(self, history: History) -> None:
        """Remove a region that lives, and is only cut off, perhaps not from all."""
        random = self._random
        members = self._members(history)
        if len(members) < 3:
            return
        region = random.choice(members)
        others = [one for one in members if one != region]
        reached = random.sample(others, random.choice((0, 0, 1, len(others))))
        for other in others:
            if other not in reached:
                self._cut(history, region, other)
        self._write(history, [region])
        self._take_token(history, region, others)
        self._meet(history, [region, *reached])
        self._remove(history, random.choice(others), region)
        for _ in range(random.randint(1, MEETINGS_MAX)):
            self._meet(history, others)
            self._write(history, [region])
            self._meet(history, [region, *reached])
        if random.random() < 0.7:
            history.do(("heal",))
            self._meet_often(history, members)
            self._write(history, members)

    def _remove_sealed(self, history: History) -> None:
        """Remove a region whose node runs: it seals itself, and all of it gets to the others.

        The operator may give up, or begin again in another region.
        """
        random = self._random
        members = self._members(history)
        if len(members) < 2:
            return
        region = random.choice(members)
        others = [one for one in members if one != region]
        coordinator, heir_at = random.choice(others), random.randrange(4)
        self._do(history, ("call", region, "a", f"CRDT.XGROUP SETMODE x g HOME {region}"))
        self._write(history, members)
        for _ in range(random.randint(2, SEALED_ASKS_MAX)):
            self._do(history, ("seal", coordinator, region, heir_at))
            self._do(history, ("settle", region))
            self._meet(history, members, whole=random.random() < 0.7)
            if random.random() < 0.3:
                self._write(history, [region])
            if random.random() < 0.1:
                coordinator = random.choice(others)
        if random.random() < 0.2:
            self._do(history, ("unseal", region))
        if random.random() < 0.2:
            self._do(history, ("update", random.choice(others), random.choice(members)))
        self._meet_often(history, members)

    def _relay(self, history: History) -> None:
        """Let the last writes of a region reach one other, which is away while the region is
        removed."""
        random = self._random
        members = self._members(history)
        if len(members) < 3:
            return
        region, relay = random.sample(members, 2)
        others = [one for one in members if one != region]
        self._do(history, ("call", random.choice(others), "a", "DEL x"))
        for other in others:
            if other != relay:
                self._cut(history, region, other)
        self._write(history, [region])
        self._do(history, ("call", region, "a", "XGROUP CREATE x g 0 MKSTREAM"))
        self._do(history, ("settle", region))
        self._meet(history, [region, relay])
        if random.random() < 0.5:
            for other in others:
                if other != relay:
                    self._cut(history, relay, other)
        if random.random() < 0.5 and self._may_die(history, region):
            self._do(history, ("die", region))
        self._remove(history, random.choice(others), region)
        self._meet_often(history, [one for one in others if one != relay])
        self._meet_often(history, others)
        if random.random() < 0.5:
            self._be_in_trouble(history, relay)
        if random.random() < 0.7:
            history.do(("heal",))
        self._meet_often(history, members)

    def _two_at_once(self, history: History) -> None:
        """Let two operators want something at the same moment, which may conflict."""
        random = self._random
        members = self._members(history)
        if len(members) < 2:
            return
        first, second = random.sample(members, 2)
        kind = random.choice(("add", "remove", "each other", "mixed"))
        for region, other in ((first, second), (second, first)):
            is_removal = kind in ("remove", "each other") or (kind == "mixed" and region == first)
            target = other if kind == "each other" else random.choice(members)
            if is_removal and self._may_remove(history, target):
                self._do(history, ("remove", region, target, random.randrange(4)))
            elif self._may_add(history):
                self._do(history, ("add", region, random.randrange(1 << 20)))
        for _ in range(random.randint(1, MEETINGS_MAX)):
            self._meet(history, random.sample(members, random.randint(2, len(members))))

    def _change_and_put_back(self, history: History) -> None:
        """Put back a folder from before a change, or an empty one."""
        random = self._random
        members = self._members(history)
        if len(members) < 3:
            return
        region = random.choice(members)
        node = history.world.nodes[region]
        before = node.disk.last_seq
        others = [one for one in members if one != region]
        target = random.choice(others)
        kind = random.choice(("remove", "add", "update"))
        if kind == "remove" and self._may_remove(history, target):
            if random.random() < 0.5:
                self._cut(history, region, target)
            self._remove(history, random.choice(others), target)
        elif kind == "add" and self._may_add(history):
            self._do(history, ("add", random.choice(members), random.randrange(1 << 20)))
        else:
            self._change_a_little(history, random.choice(members), target)
        for _ in range(random.randint(1, MEETINGS_MAX)):
            self._meet(history, random.sample(members, random.randint(2, len(members))))
        self.put_back(history, region, before)
        self._do(history, ("start", region))
        if random.random() < 0.5:
            history.do(("heal",))
        for _ in range(random.randint(1, MEETINGS_MAX)):
            self._meet(history, members)
            self._do(history, ("bootstrap", region, 100))

    def put_back(self, history: History, region: RegionId, count: int) -> None:
        """Put back an earlier folder, or an empty one; if all others can do without."""
        random = self._random
        if not self.may_put_back(history, region):
            return
        if self.cuts_log:
            history.do(("wipe", region))
            return
        history.do(("crash", region, random.random() < 0.5))
        history.do(("restore", region, count, random.randrange(4)))

    def _move(self, history: History) -> None:
        members = self._members(history)
        if members:
            region, other = (self._random.choice(members) for _ in range(2))
            self._change_a_little(history, region, other)
            self._meet_often(history, members)

    def _change_a_little(self, history: History, region: RegionId, other: RegionId) -> None:
        """Let a region have another address, or revoke a certificate."""
        random = self._random
        if random.random() < REVOKED_SHARE:
            # Few certificates, so that the same one is revoked twice; some have expired.
            step: Step = ("revoke", region, random.randint(1, 4), random.choice((-3, 0, 90)))
        else:
            step = ("update", region, other)
        self._do(history, step)

    def _come_back(self, history: History) -> None:
        """Start a removed region again, which wants to take part."""
        random = self._random
        world = history.world
        members = self._members(history)
        removed = [one for one in world.nodes if one not in members and one not in world.dead]
        if not removed or not members:
            return
        region = random.choice(removed)
        self._write(history, [region])
        if random.random() < 0.5:
            history.do(("crash", region, random.random() < 0.5))
            self._do(history, ("start", region))
        history.do(("heal",))
        for _ in range(random.randint(1, MEETINGS_MAX)):
            self._meet(history, [region, *members])
            self._write(history, [region])

    def _salvage(self, history: History) -> None:
        """Salvage what only the folder of a removed region has into one region, or into two; a
        salvage that is killed is run again."""
        random, world = self._random, history.world
        members = self._members(history)
        removed = [one for one in world.nodes if one not in members and one not in world.dead]
        if not removed or not members:
            return
        region = random.choice(removed)
        for _ in range(random.randint(1, 3)):
            self._do(history, ("salvage", region, random.choice(members), random.choice((1, 9))))
            self._meet(history, members)
        if random.random() < 0.5:
            self._do(history, ("start", region))

    def _split(self, history: History) -> None:
        """Cut two parts off from each other, and let operators have both go on alone."""
        random = self._random
        members = self._members(history)
        if len(members) < 2:
            return
        half = set(random.sample(members, random.randint(1, len(members) - 1)))
        parts = [half, set(members) - half]
        for one in parts[0]:
            for other in parts[1]:
                self._cut(history, one, other)
        for part, lost in (parts, parts[::-1]) if random.random() < 0.7 else (parts,):
            for region in sorted(lost):
                coordinator = random.choice(sorted(part))
                left = [
                    one
                    for one in members_of(history.world.nodes[coordinator]).active
                    if one in part
                ]
                self._do(history, ("without majority", coordinator, region, 0, *left))
                self._meet(history, sorted(part))
                self._meet(history, sorted(part))
            self._write(history, sorted(part))
        if random.random() < 0.7:
            history.do(("heal",))
            self._meet_often(history, members)
            self._write(history, members)

    # --- Their parts ----------------------------------------------------------------------------

    def _do(self, history: History, step: Step) -> None:
        """Take a step, and perhaps a fault."""
        history.do(step)
        if self._random.random() < self._trouble:
            self._be_in_trouble(history, self._random.choice(list(history.world.nodes)))

    def _be_in_trouble(self, history: History, region: RegionId) -> None:
        random, world = self._random, history.world
        node = world.nodes[region]
        kind = random.choice(("crash", "power cut", "refuse", "cut", "letters", "put back"))
        match kind:
            case "crash":
                history.do(("crash", region, random.random() < 0.5))
            case "power cut":
                history.do(("power cut", region, random.choice((0, 1, 5))))
            case "refuse":
                history.do(("refuse", region, random.choice(("", "no space left"))))
            case "cut":
                history.do(("cut", region, random.choice(list(world.nodes))))
            case "letters":
                history.do(("lose letters", region))
            case _ if random.random() < 0.3:
                self.put_back(history, region, random.randrange(node.disk.last_seq + 1))
        if not node.is_up and random.random() < 0.7:
            history.do(("start", region))

    def _remove(self, history: History, coordinator: RegionId, region: RegionId) -> None:
        """Force a removal; without a majority if none is left."""
        random, world = self._random, history.world
        node = world.nodes[coordinator]
        if not node.is_up:
            return
        members = members_of(node)
        alive = [
            one
            for one in members.active
            if one != region and one in world.nodes and one not in world.dead
        ]
        heir_at = random.randrange(4)
        if 2 * len(alive) > len(members.active):
            self._do(history, ("remove", coordinator, region, heir_at))
        elif all(one in world.dead for one in members.active if one not in alive):
            self._do(history, ("without majority", coordinator, region, heir_at, *alive))

    def _cut(self, history: History, one: RegionId, other: RegionId) -> None:
        history.do(("cut", one, other))
        if self._random.random() < 0.9:
            history.do(("cut", other, one))

    def _write(self, history: History, regions: Iterable[RegionId]) -> None:
        random, numbers = self._random, list(regions)
        for _ in range(random.randint(0, WRITES_MAX) if numbers else 0):
            region = random.choice(numbers)
            self._do(history, ("call", region, random.choice("ab"), random.choice(self._words)))
            if random.random() < 0.5:
                self._do(history, ("settle", region))

    def _take_token(self, history: History, region: RegionId, others: Sequence[RegionId]) -> None:
        """Let a client take a token to regions that its effects may never reach, and wait for it
        there."""
        history.do(("token", region))
        if self._random.random() < 0.5:
            history.do(("wait for", self._random.choice(others), -1))

    def _meet_often(self, history: History, regions: Sequence[RegionId]) -> None:
        for _ in range(self._random.randint(0, MEETINGS_MAX)):
            self._meet(history, regions)

    def _meet(self, history: History, regions: Sequence[RegionId], *, whole: bool = False) -> None:
        """Let some time pass in which these regions hear of each other."""
        random = self._random
        self._do(history, ("pass", random.choice((10, 100, 300, 600, 1500))))
        for region in regions:
            history.do(("time", region))
        pairs = [(one, other) for one in regions for other in regions if one != other]
        random.shuffle(pairs)
        for puller, server in pairs:
            self._do(history, ("exchange", puller, server, 30 if whole else random.choice((3, 20))))
            if whole or random.random() < 0.6:
                self._do(history, ("settle", puller))
            else:
                for part in random.sample(PARTS, 4):
                    self._do(history, (part, puller))


def _keeps_votes(node: SimNode) -> bool:
    """True if a region votes, or will when it starts."""
    votes_now = not node.is_up or node.region.membership.part.may_vote
    return votes_now and node.disk.is_confirmed


def _has_all_decided(node: SimNode, lost: SimNode, was_decided: Callable[[Change], bool]) -> bool:
    """True if a region knows each decision that another one knows, or has voted for it.

    A change is decided when more than half have voted for it.  If all of these lose their folders
    before one of them has recovered or another region has heard of it, the change is lost.
    """
    votes, here = (one.region.membership.part.votes for one in (lost, node))
    epoch, known = members_of(lost).epoch, members_of(node).epoch
    if votes.accepted is not None and was_decided(votes.accepted.change):
        epoch = max(epoch, votes.epoch)
    if epoch == known + 1 == here.epoch:
        return here.accepted is not None and was_decided(here.accepted.change)
    return known >= epoch


def _accepts_removal(node: SimNode, region: RegionId) -> bool:
    """True if a region has accepted the removal of another one, so that it may be decided."""
    votes = node.region.membership.part.votes
    changes = [*votes.pending, *([] if votes.accepted is None else [votes.accepted.change])]
    return any(isinstance(change, Remove) and change.region == region for change in changes)
