"""What can be changed while a node runs; remembered in its log's settings."""

from typing import Final

from crdtstream.core.replica import Replica
from crdtstream.core.tuning import ID_MODE, MKSTREAM, TUNABLES
from crdtstream.settings import NodeSettings
from crdtstream.store.log import Log

ALLOWED: Final = {name: tunable.values for name, tunable in TUNABLES.items()}


class TuneError(Exception):
    """No such parameter or value; the text names the allowed ones."""


class Tunables:
    """The tunables of one node: applied to the replica, kept in the log's settings."""

    def __init__(self, replica: Replica, log: Log, settings: NodeSettings) -> None:
        self._replica = replica
        self._log = log
        self._settings = settings

    async def restore(self) -> None:
        """Apply what was set in earlier runs, else what the settings say."""
        given = {
            ID_MODE.name: self._settings.crdt_xadd_id_uniqueness_mode,
            MKSTREAM.name: self._settings.crdt_xgroup_create_mkstream,
        }
        for parameter, default in given.items():
            kept = await self._log.get_meta(_meta_key(parameter))
            self._apply(parameter, kept if kept in ALLOWED[parameter] else default)

    async def set(self, parameter: str, value: str) -> tuple[str, str]:
        """Set one, durably; returns its value before and now.

        Raises:
            TuneError: no such parameter or value.
            StoreError: it cannot be kept.  Nothing has changed then.
        """
        if parameter not in ALLOWED:
            raise TuneError(f"no parameter {parameter!r}; there are {', '.join(sorted(ALLOWED))}")
        if value not in ALLOWED[parameter]:
            raise TuneError(
                f"{parameter} cannot be {value!r}; allowed are {', '.join(ALLOWED[parameter])}"
            )
        before = self.values()[parameter]
        await self._log.set_meta(_meta_key(parameter), value)
        await self._log.sync()
        self._apply(parameter, value)
        return before, value

    def values(self) -> dict[str, str]:
        """Everything worth showing, tunable while running or not, by name."""
        return {
            "appendfsync": self._settings.appendfsync,
            **{name: tunable.get(self._replica) for name, tunable in TUNABLES.items()},
            "stream-node-max-bytes": str(self._settings.stream_node_max_bytes),
            "stream-node-max-entries": str(self._settings.stream_node_max_entries),
        }

    def _apply(self, parameter: str, value: str) -> None:
        TUNABLES[parameter].put(self._replica, value)


def _meta_key(parameter: str) -> str:
    return f"tune:{parameter}"
