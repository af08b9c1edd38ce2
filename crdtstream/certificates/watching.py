"""Certificates of a running node: its files are watched, and each new good set replaces the former.

Files are looked at every ``POLL_SECONDS``, at SIGHUP, and when an operator asks (``crdtstream certs
reload``).  All reading and checking runs in a thread.  Nobody is called back: users compare the
version of ``current`` with the one that they have.

Changed files are read once they have stayed the same for a tenth of that time: half of a bundle of
authorities is a bundle as well.  If an operator asks, they are read at once.

A new set is checked first.  If it is bad, as when the key was replaced and the certificate is not
yet, the former set goes on; the reason is in the log and in ``fault``, it is counted once, and the
files are read again at each look until they are good.

Always so: ``current`` is one whole set that was good when it was read.
"""

import asyncio
import datetime
from collections.abc import Callable
from typing import Final, Self

import structlog

from crdtstream.certificates.chain import time_text
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.node_files import CertificateSet, Paths, Stamped, read_set
from crdtstream.core.size import Seconds

POLL_SECONDS: Final = Seconds(10.0, least=0.01)
# The part of it in which changed files must stay the same.  Files that never do are read anyway,
# after a few such times.
STILL_PART: Final = 0.1
STILL_LOOKS_MAX: Final = 5
# Part of a certificate's life at whose beginning it should have been replaced.
LAST_PART: Final = 0.2

logger = structlog.get_logger(__name__)


class Certificates:
    """The certificates of one node.

    Attributes:
        current: the set that new connections use.
        paths: its files.
        fault: why the files as they are now are not used; None: they are.
        reloads: sets that replaced a former one.
        reload_failures: contents of the files that were refused.
    """

    def __init__(
        self, paths: Paths, wanted: Wanted | None, first: CertificateSet, stamped: Stamped
    ) -> None:
        self.current = first
        self.fault: str | None = None
        self.reloads = 0
        self.reload_failures = 0
        self.paths = paths
        self._wanted = wanted
        self._stamped = stamped
        # One at a time.
        self._reading = asyncio.Lock()

    @classmethod
    async def open(cls, paths: Paths, wanted: Wanted | None) -> Self:
        """Read the files for the first time.

        Args:
            wanted: see ``read_set``.

        Raises:
            CertificateError: they cannot be used; the text says what to do.
        """
        first, stamped = await asyncio.to_thread(read_set, paths, wanted, _now())
        return cls(paths, wanted, first, stamped)

    async def run(self) -> None:
        """Watch the files until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS.value * (1 - STILL_PART))
            paths = self.paths
            stamped = await self._when_still(paths)
            async with self._reading:
                if stamped != self._stamped or self.fault is not None:
                    await self._read(paths, stamped)

    async def reload_at(self, asked: asyncio.Event) -> None:
        """Read the files whenever the event is set, also if it was set before; until cancelled."""
        while True:
            await asked.wait()
            asked.clear()
            await self.reload()

    async def reload(self) -> str | None:
        """Read the files now.

        Returns:
            Why they are not used; None: they are.
        """
        async with self._reading:
            paths = self.paths
            await self._read(paths, await asyncio.to_thread(Stamped.of, paths))
        return self.fault

    def tried(self, paths: Paths) -> tuple[CertificateSet, Callable[[], None]]:
        """Read and check other files at once, on this thread: they are small.

        Returns:
            Their set, and what makes these files the node's.

        Raises:
            CertificateError: they cannot be used; nothing has changed.
        """
        found, stamped = read_set(paths, self._wanted, _now())

        def use() -> None:
            self.paths = paths
            self._take(found, stamped)

        return found, use

    @property
    def seconds_left(self) -> float:
        """Time until the first certificate of the chain expires; negative once it has."""
        return (self.current.not_after - _now()).total_seconds()

    @property
    def is_near_end(self) -> bool:
        """True in the last part of the certificate's life."""
        life = self.current.not_after - self.current.not_before
        return self.seconds_left < LAST_PART * life.total_seconds()

    @property
    def trouble(self) -> str | None:
        """Reason why somebody should look at the certificates; None: there is none.

        It names no file, as everybody may read it.
        """
        if self.seconds_left < 0:
            return "the certificate has expired; replace it"
        if self.fault is not None:
            return "changed certificate files are not used; the log says why"
        if self.is_near_end:
            return f"the certificate expires at {time_text(self.current.not_after)}; replace it"
        return None

    async def _when_still(self, paths: Paths) -> Stamped:
        """Wait until changed files stay the same; returns their stamps then.

        Nothing is locked meanwhile: if an operator asks, they are read at once.
        """
        stamped = await asyncio.to_thread(Stamped.of, paths)
        if stamped == self._stamped:
            return stamped
        for _ in range(STILL_LOOKS_MAX):
            await asyncio.sleep(POLL_SECONDS.value * STILL_PART)
            before, stamped = stamped, await asyncio.to_thread(Stamped.of, paths)
            if stamped == before:
                break
        return stamped

    async def _read(self, paths: Paths, stamped: Stamped) -> None:
        """Read the files, and use them if they are good."""
        fault: str | None = None
        try:
            found, read = await asyncio.to_thread(read_set, paths, self._wanted, _now())
        except CertificateError as error:
            fault = str(error)
        if self.paths != paths:
            # Other files were named meanwhile.
            return
        if fault is not None:
            self._refuse(fault, stamped)
        else:
            self._take(found, read)

    def _refuse(self, reason: str, stamped: Stamped) -> None:
        is_known = self.fault is not None and stamped == self._stamped
        self.fault, self._stamped = reason, stamped
        if is_known:
            # The same files are refused at each look, and counted once.
            return
        self.reload_failures += 1
        logger.error(
            "changed certificates are not used; the former ones go on",
            reason=reason,
            valid_until=self.current.not_after.isoformat(),
        )

    def _take(self, found: CertificateSet, stamped: Stamped) -> None:
        self._stamped = stamped
        was_refused, self.fault = self.fault is not None, None
        if found.is_same(self.current):
            if was_refused:
                logger.info("certificates are as they were; they go on")
            return
        self.current = found.after(self.current)
        self.reloads += 1
        logger.info(
            "new certificates",
            version=self.current.version,
            serial=f"{found.serial:x}",
            valid_until=found.not_after.isoformat(),
            authorities_changed=self.current.ca_version == self.current.version,
        )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
