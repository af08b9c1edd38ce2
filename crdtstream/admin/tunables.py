"""Parameters that can be changed while a node runs; they are kept in its log's settings."""

from crdtstream.region.region import Region
from crdtstream.region.tuning import tunables_of
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Log


class TuneError(Exception):
    """No such parameter or value; the text names the allowed ones."""


class TuneNotKnownError(Exception):
    """A value is written, and the disk did not say that it stays; the text says what to do."""


class Tunables:
    """The tunables of one node: applied to the region, kept in the log's settings."""

    def __init__(self, region: Region, log: Log, settings: NodeSettings) -> None:
        self._tuned = tunables_of(region)
        self._log = log
        self._settings = settings

    async def restore(self) -> None:
        """Apply what was set in earlier runs, else what the settings say."""
        for parameter, tuned in self._tuned.items():
            kept = await self._log.get_meta(_meta_key(parameter))
            if kept is None or not tuned.tunable.takes(kept):
                kept = str(getattr(self._settings, tuned.tunable.setting))
            tuned.put(kept)

    async def set(self, parameter: str, value: str) -> tuple[str, str]:
        """Set one, durably; returns its value before and now.

        Raises:
            TuneError: no such parameter or value.
            StoreError: it cannot be written.  Nothing has changed then.
            TuneNotKnownError: it is written, and a power cut may take it back.  Nothing has
                changed then until the next start, which may take either value.
        """
        before = self.check(parameter, value)
        await self._log.set_meta(_meta_key(parameter), value)
        try:
            await self._log.sync()
        except StoreError as error:
            raise TuneNotKnownError(
                f"{error}; {parameter} is still {before}, and may be {value} after a restart: set"
                " it again when the disk is well"
            ) from error
        tuned = self._tuned[parameter]
        tuned.put(value)
        return before, tuned.get()

    def check(self, parameter: str, value: str) -> str:
        """The present value of one that can be set to ``value`` now.

        Raises:
            TuneError: no such parameter or value.
        """
        tuned = self._tuned.get(parameter)
        if tuned is None:
            known = ", ".join(sorted(self._tuned))
            raise TuneError(f"no parameter {parameter!r}; there are {known}")
        tunable = tuned.tunable
        if not tunable.takes(value):
            wanted = f"it must be {tunable.wanted}"
            if tunable.values:
                wanted = f"allowed are {', '.join(tunable.values)}"
            raise TuneError(f"{parameter} cannot be {value!r}; {wanted}")
        refusal = tuned.refusal(value)
        if refusal is not None:
            raise TuneError(f"{parameter} cannot be {value!r}: {refusal}")
        return tuned.get()

    def allowed(self, parameter: str) -> tuple[str, ...]:
        """Values that a parameter may have; none if it cannot be tuned."""
        tuned = self._tuned.get(parameter)
        return () if tuned is None else tuned.tunable.allowed

    def values(self) -> dict[str, str]:
        """Everything worth showing, tunable while running or not, by name."""
        return {
            **{name: tuned.get() for name, tuned in self._tuned.items()},
            "stream-node-max-bytes": str(self._settings.stream_node_max_bytes),
            "stream-node-max-entries": str(self._settings.stream_node_max_entries),
        }


def _meta_key(parameter: str) -> str:
    return f"tune:{parameter}"
