"""Sizes of the code, for a Hypothesis machine: drawn when it begins, and as before when it ends."""

from contextlib import ExitStack

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from crdtstream.sim.sizes import drawn, drawn_node_limits, redraw

# The seed that sizes are drawn from; the simplest leaves them as they are.
SIZES = st.none() | st.integers(0, (1 << 32) - 1)


class SizedMachine(RuleBasedStateMachine):
    """A machine whose first rule calls ``draw_sizes``."""

    _seed: int | None = None
    _turn = 0
    _drawn: ExitStack | None = None

    def draw_sizes(self, seed: int | None, *, clients: bool = True) -> None:
        """Have the sizes of this seed until the machine ends.

        Args:
            clients: whether clients may notice.
        """
        assert self._drawn is None
        self._seed = seed
        self._drawn = ExitStack()
        self._drawn.enter_context(drawn(seed, clients=clients))

    def redraw_sizes(self) -> None:
        """A process begins again, with others."""
        self._turn += 1
        redraw(self._seed, self._turn)

    def node_limits(self) -> tuple[int, int]:
        """Entries and bytes of a macro node of what begins now."""
        return drawn_node_limits(self._seed, self._turn)

    def teardown(self) -> None:
        if self._drawn is not None:
            self._drawn.close()
