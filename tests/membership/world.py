"""Every way in which members can decide one epoch: all interleavings of their messages and faults.

A change that was decided stays decided, though its folders are restored: what a member once knew is
compared with what any of them comes to know.

The network keeps each message that was sent and may deliver it at any time, again and again, or
never.  So loss, repetition and disorder need no steps of their own.  A member may crash (it has
then what was durable), be put back to before its first vote (a restored folder), or die.

Words belong to one start of a node: what a restored member was sent before does not reach it, and
who has answered it takes no older word of it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import (
    Change,
    Contact,
    Removal,
    Remove,
    Update,
)
from crdtstream.core.membership.deciding import (
    Accepted,
    Ballot,
    Decided,
    Deciding,
    Message,
    Nack,
    NotHere,
    Promise,
    Turn,
    Vote,
    Votes,
    starting,
)
from crdtstream.core.membership.members import Members, genesis

NOW = Millis(1_700_000_000_000)


def contact(number: int, name: str = "") -> Contact:
    return Contact(name or f"region-{number}", f"host{number}:7000", f"host{number}:6379")


def instance(number: int) -> bytes:
    return number.to_bytes(16, "big")


def founded(count: int) -> Members:
    """Regions 1 to ``count``, as their files name them."""
    return genesis(map(RegionId, range(1, count + 1)))


def removal(region: int, heir: int, how: Removal = Removal.FORCED) -> Remove:
    return Remove(RegionId(region), RegionId(heir), how)


def renamed(region: int, name: str) -> Update:
    return Update(RegionId(region), contact(region, name))


def moved(region: int, host: str) -> Update:
    """Another address, and nothing else."""
    return Update(RegionId(region), replace(contact(region), grpc=f"{host}:7000"))


class Faults(NamedTuple):
    """Faults that may still happen."""

    proposals: int
    crashes: int = 0
    restores: int = 0
    deaths: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A member.

    Attributes:
        part: what it knows.
        durable: the votes that a crash leaves.
        start: counts how often its folder was restored.
        known: by member, the start of it that this one has answered.
        answers: of one that recovers, who has answered it, with what; None: it does not recover.
        ever: by epoch the changes that it knew to be decided, also before its folder was restored.
    """

    part: Deciding
    durable: Votes
    is_alive: bool = True
    start: int = 0
    known: tuple[int, ...] = ()
    answers: tuple[tuple[int, Ballot, Change | None, Vote | None], ...] | None = None
    ever: frozenset[tuple[int, Change]] = frozenset()

    def key(self) -> object:
        part = self.part
        return (
            *(part.here, part.votes, part.may_vote, part.proposal, part.seen),
            *(self.durable, self.is_alive, self.start, self.known, self.answers, self.ever),
        )


class Sent(NamedTuple):
    sender: int
    sender_start: int
    to: int
    to_start: int
    message: Message


State = tuple[tuple[int, ...], int, Faults]


@dataclass
class World:
    """The states that can be reached.

    Attributes:
        wishes: by member the change that it proposes; others propose nothing.
        behind: by member what it proposes for the next epoch once it knows a decision, whose effect
            is still to follow.
    """

    members: Members
    wishes: dict[int, Change]
    behind: dict[int, Change] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    decided: set[Change] = field(default_factory=set)
    stuck: list[str] = field(default_factory=list)
    state_count: int = 0
    _node_numbers: dict[object, int] = field(default_factory=dict)
    _sent_numbers: dict[Sent, int] = field(default_factory=dict)
    _delivered: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    _can_go_on: dict[tuple[int, ...], bool] = field(default_factory=dict)
    # By member, the messages to it; and by member and messages, those of them that are dead.
    _to: list[int] = field(default_factory=list)
    _dead: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.members.voters)

    def explore(self, faults: Faults, *, checks_progress: bool = True) -> None:
        """Visit every state, in order of the number of steps to it."""
        self._to = [0] * self.count
        votes = Votes(self.members.epoch + 1)
        first = tuple(
            self._number(
                Node(Deciding(region, self.members, votes), votes, known=(0,) * self.count)
            )
            for region in self.members.voters
        )
        begin: State = (first, 0, faults)
        reached = {begin}
        waiting = deque([begin])
        while waiting:
            state = waiting.popleft()
            ever = frozenset().union(*(self.nodes[number].ever for number in state[0]))
            assert len(ever) == len({epoch for epoch, _ in ever}), self.shown(state)
            for after in self._steps(state):
                after = (after[0], self._pruned(after[0], after[1]), after[2])
                if after not in reached:
                    reached.add(after)
                    waiting.append(after)
            if checks_progress and not self._goes_on(state[0]):
                self.stuck.append(self.shown(state))
        self.state_count = len(reached)

    def shown(self, state: State) -> str:
        return "\n".join(str(self.nodes[number].key()) for number in state[0])

    # --- Steps ----------------------------------------------------------------------------------

    def _steps(self, state: State) -> Iterator[State]:
        numbers, mask, faults = state
        for at, number in enumerate(numbers):
            node = self.nodes[number]
            if not node.is_alive:
                continue
            part = node.part
            wish = self.wishes.get(at)
            can_propose = part.may_vote and part.votes.decided is None
            if part.votes.earlier:
                wish = self.behind.get(at)
            if faults.proposals and wish is not None and can_propose:
                turn = part.propose(wish, is_stable=not part.votes.earlier)
                left = faults._replace(proposals=faults.proposals - 1)
                yield self._after(numbers, mask, left, at, turn)
            behind = self.behind.get(at)
            goes_on = part.votes.decided is not None and not part.votes.earlier
            if faults.proposals and behind is not None and goes_on:
                turn = part.gone_on().propose(behind, is_stable=False)
                left = faults._replace(proposals=faults.proposals - 1)
                yield self._after(numbers, mask, left, at, turn)
            if faults.crashes and (part.votes != node.durable or part.proposal is not None):
                left = faults._replace(crashes=faults.crashes - 1)
                yield (_put(numbers, at, self._number(crashed(node, self.members))), mask, left)
            if faults.deaths:
                left = faults._replace(deaths=faults.deaths - 1)
                dead = self._number(replace(node, is_alive=False))
                yield (_put(numbers, at, dead), mask, left)
            if faults.restores and not any(self.nodes[one].answers is not None for one in numbers):
                left = faults._replace(restores=faults.restores - 1)
                yield (_put(numbers, at, self._number(self._restored(node))), mask, left)
            if node.answers is not None:
                yield from self._answers(state, at, node)
        left_over = mask
        while left_over:
            bit = left_over & -left_over
            left_over ^= bit
            after = self._deliver(numbers, mask, faults, bit.bit_length() - 1)
            if after is not None:
                yield after

    def _deliver(
        self, numbers: tuple[int, ...], mask: int, faults: Faults, message: int
    ) -> State | None:
        sent = self.sent[message]
        number = numbers[sent.to]
        found = self._delivered.get((number, message))
        if found is None:
            node = self.nodes[number]
            if (
                not node.is_alive
                or node.start != sent.to_start
                or node.known[sent.sender] > sent.sender_start
            ):
                found = (number, 0)
            else:
                sender = self.members.voters[sent.sender]
                found = self._turned(node, sent.to, node.part.receive(sender, sent.message))
            self._delivered[number, message] = found
        after, letters = found
        if after == number and not letters & ~mask:
            return None
        return (_put(numbers, sent.to, after), mask | self._addressed(numbers, letters), faults)

    def _addressed(self, numbers: tuple[int, ...], letters: int) -> int:
        """The letters as to the present starts of their addressees."""
        mask = 0
        while letters:
            bit = letters & -letters
            letters ^= bit
            sent = self.sent[bit.bit_length() - 1]
            start = self.nodes[numbers[sent.to]].start
            mask |= 1 << self._message(sent._replace(to_start=start))
        return mask

    def _pruned(self, numbers: tuple[int, ...], mask: int) -> int:
        """Without messages that change nothing now, and never will."""
        left = mask
        for number, to_it in zip(numbers, self._to, strict=True):
            mine = mask & to_it
            if mine:
                dead = self._dead.get((number, mine))
                if dead is None:
                    dead = sum(
                        1 << message
                        for message in range(mine.bit_length())
                        if mine >> message & 1 and is_dead(self.nodes[number], self.sent[message])
                    )
                    self._dead[number, mine] = dead
                left ^= dead
        return left

    def _answers(self, state: State, at: int, node: Node) -> Iterator[State]:
        """Each other living member may answer the one that recovers."""
        numbers, mask, faults = state
        assert node.answers is not None
        region = node.part.here
        for other, number in enumerate(numbers):
            peer = self.nodes[number]
            if other == at or not peer.is_alive or any(other == one for one, *_ in node.answers):
                continue
            part, ballot, vote = peer.part.forgotten_by(region)
            known = _put(peer.known, at, node.start)
            answering = _put(numbers, other, self._number(replace(peer, part=part, known=known)))
            said = (other, ballot, part.votes.decided, vote)
            answers = (*node.answers, said)
            if len(answers) < self.count - 1:
                more = self._number(
                    replace(node, answers=tuple(sorted(answers, key=lambda a: a[0])))
                )
                yield (_put(answering, at, more), mask, faults)
                continue
            decided = next((change for *_, change, _ in answers if change is not None), None)
            votes = [vote for *_, vote in answers if vote is not None]
            ballots = [ballot for _, ballot, *_ in answers]
            turn = node.part.answered(ballots, decided, accepted=votes)
            ready = replace(node, answers=None)
            after, letters = self._turned(ready, at, turn)
            after_mask = mask | self._addressed(answering, letters)
            yield (_put(answering, at, after), after_mask, faults)

    def _restored(self, node: Node) -> Node:
        votes = Votes(self.members.epoch + 1)
        part = Deciding(node.part.here, self.members, votes, may_vote=False)
        return replace(node, part=part, durable=votes, start=node.start + 1, answers=())

    def _after(
        self, numbers: tuple[int, ...], mask: int, faults: Faults, at: int, turn: Turn
    ) -> State:
        after, letters = self._turned(self.nodes[numbers[at]], at, turn)
        return (_put(numbers, at, after), mask | self._addressed(numbers, letters), faults)

    def _turned(self, node: Node, at: int, turn: Turn) -> tuple[int, int]:
        """The node after a turn, and its letters, as to the first start of each addressee."""
        durable = turn.after.votes if turn.must_keep else node.durable
        if durable.decided is not None:
            self.decided.add(durable.decided)
            node = replace(node, ever=node.ever | {(durable.epoch, durable.decided)})
        mask = 0
        for to, message in turn.letters:
            index = self.members.voters.index(to)
            mask |= 1 << self._message(Sent(at, node.start, index, 0, message))
        return self._number(replace(node, part=turn.after, durable=durable)), mask

    # --- Progress -------------------------------------------------------------------------------

    def _goes_on(self, numbers: tuple[int, ...]) -> bool:
        """True if, with more than half alive and able to vote, each can have a change decided."""
        found = self._can_go_on.get(numbers)
        if found is None:
            nodes = [self.nodes[number] for number in numbers]
            able = [node.part for node in nodes if node.is_alive and node.part.may_vote]
            found = len(able) <= self.count // 2 or all(
                finishes(able, at) for at in range(len(able))
            )
            self._can_go_on[numbers] = found
        return found

    # --- Numbers for values ---------------------------------------------------------------------

    def _number(self, node: Node) -> int:
        key = node.key()
        number = self._node_numbers.setdefault(key, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(node)
        return number

    def _message(self, sent: Sent) -> int:
        number = self._sent_numbers.setdefault(sent, len(self.sent))
        if number == len(self.sent):
            self.sent.append(sent)
            self._to[sent.to] |= 1 << number
        return number


def is_dead(node: Node, sent: Sent) -> bool:
    """True if a message cannot change the node any more: it is of a start that is over, or an
    answer to an attempt that is, and no ballot is used twice."""
    if (
        not node.is_alive
        or node.start != sent.to_start
        or node.known[sent.sender] > sent.sender_start
    ):
        return True
    match sent.message:
        case Promise() | Accepted() | Nack() | NotHere():
            proposal = node.part.proposal
            return proposal is None or proposal.ballot != sent.message.ballot
        case Decided(epoch, _, _):
            votes = node.part.votes
            return epoch < votes.pending_from + len(votes.pending)
        case _:
            return False


def crashed(node: Node, members: Members) -> Node:
    """The node as it starts again: no effect has come to it."""
    part = node.part
    again = starting(part.here, members, node.durable, votes_are_proven=part.may_vote)
    return replace(node, part=again)


def finishes(parts: list[Deciding], at: int) -> bool:
    """True if a member has a change decided in three attempts, provided its messages arrive."""
    by_region = {part.here: part for part in parts}
    here = parts[at].here
    for _ in range(3):
        if by_region[here].votes.decided is not None:
            return True
        turn = by_region[here].propose(renamed(here, "again"), is_stable=True)
        run(by_region, here, turn)
    return by_region[here].votes.decided is not None


def run(
    parts: dict[RegionId, Deciding],
    sender: RegionId,
    turn: Turn,
    lost: Callable[[RegionId, RegionId, Message], bool] = lambda *_: False,
) -> None:
    """Deliver the letters of a turn, and all that follow from them, to those who are there."""
    parts[sender] = turn.after
    waiting = deque((sender, letter) for letter in turn.letters)
    while waiting:
        origin, (to, message) = waiting.popleft()
        if to in parts and not lost(origin, to, message):
            turn = parts[to].receive(origin, message)
            parts[to] = turn.after
            waiting.extend((to, letter) for letter in turn.letters)


def _put(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])
