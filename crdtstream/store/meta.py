"""The table ``meta``: settings of the folder, with a checksum over all of them."""

import asyncio
from collections.abc import Mapping
from typing import Final

from crdtstream.store.connections import ADVICE, Connections, is_full
from crdtstream.store.errors import DAMAGED, NoRoomError, StoreError
from crdtstream.store.layout import CHECKSUM_KEY, meta_checksum

# Identity of the database: 32 hexadecimal digits.
UID_KEY: Final = "database_uid"
# The uid of the folder, votes, and the newest members that were heard of, in hexadecimal.
MEMBERSHIP_KEY: Final = "membership"
# The folders that numbered the effects of the regions, in hexadecimal.
INCARNATIONS_KEY: Final = "incarnations"
# The volume on which the folder was last open (``opening.py``).
VOLUME_KEY: Final = "volume"


class MetaTable:
    """The settings as they were read or written last; ``read`` comes first."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._values: dict[str, str] = {}

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def get(self, key: str) -> str | None:
        return self._values.get(key)

    def items(self) -> list[tuple[str, str]]:
        return list(self._values.items())

    async def read(self) -> None:
        """Read all of them.

        Raises:
            StoreError: they cannot be read.
        """
        query = "SELECT key, value FROM meta"
        found = await self._connections.fetch(self._connections.reader, query)
        self._values = {str(key): str(value) for key, value in found}

    def check(self) -> None:
        """See that they are what was written, in a format that has a checksum over them.

        Raises:
            StoreError: they are not.
        """
        if self._values.get(CHECKSUM_KEY) != meta_checksum(self._values):
            raise StoreError(
                f"{self._connections.path}: table meta is damaged (checksum). {ADVICE}"
            )

    async def write(self, changed: Mapping[str, str]) -> None:
        """Change settings, all or none.

        Raises:
            NoRoomError: the disk is full.
            StoreError: the disk refused.
        """
        self._connections.check_there()
        # A cancelled caller leaves a statement that is executed all the same: what this object
        # knows must follow, or the checksum of the next one would not cover what the file says.
        await asyncio.shield(asyncio.ensure_future(self._write_whole(changed)))

    async def _write_whole(self, changed: Mapping[str, str]) -> None:
        async with self._connections.turn:
            values = {**self._values, **changed}
            values[CHECKSUM_KEY] = meta_checksum(values)
            keys = [*changed, CHECKSUM_KEY]
            statement = "INSERT OR REPLACE INTO meta VALUES " + ",".join(["(?,?)"] * len(keys))
            written = [value for key in keys for value in (key, values[key])]
            try:
                await self._connections.writer.execute(statement, written)
            except DAMAGED as error:
                named = " and ".join(repr(key) for key in changed)
                kind = NoRoomError if is_full(self._connections.path, error) else StoreError
                raise kind(f"{self._connections.path}: cannot write {named}: {error}") from error
            self._values = values
