"""Replies as a client sees them: parsed RESP, and the way a table prints them.

Both targets of a scenario, the simulator and live nodes, return replies in this one form.  It keeps
all that a client could tell apart, and nothing else is compared.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, Union

import hiredis


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error, its prefix included: ``BUSYGROUP Consumer Group name already exists``."""

    text: str


class Waiting(Enum):
    """Answer of a blocking command while it blocks: nothing."""

    WAITING = "waits"


WAITING = Waiting.WAITING

Value: TypeAlias = Union[int, bytes, ErrorReply, "list[Value]", None]
Answer: TypeAlias = Value | Waiting


class ReplyReader:
    """Turns the bytes of one connection into values."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(notEnoughData=WAITING)

    def feed(self, data: bytes) -> None:
        self._reader.feed(data)

    def next(self) -> Answer:
        """The next whole reply, or WAITING if the bytes so far hold none."""
        parsed: object = self._reader.gets()
        return WAITING if parsed is WAITING else _value(parsed)


def _value(parsed: object) -> Value:
    match parsed:
        case None | int() | bytes():
            return parsed
        case hiredis.ReplyError():
            return ErrorReply(str(parsed))
        case list():
            return [_value(item) for item in parsed]
        case _:
            raise TypeError(f"RESP2 has no {type(parsed).__name__}")


def show(answer: Answer) -> str:
    """The answer in the notation of expectations, so that it can be copied into a file."""
    match answer:
        case Waiting.WAITING:
            return "waits"
        case None:
            return "nil"
        case int():
            return str(answer)
        case bytes():
            return quote(answer.decode("utf-8", "backslashreplace"))
        case ErrorReply(text):
            return f"error {text}"
        case list():
            return "[" + ", ".join(show(item) for item in answer) + "]"


def quote(text: str) -> str:
    """``text`` as the notation needs it: in quotes if it would read as something else."""
    bare = text and not set(text) & set(" ,=[]{}\"'\n\t") and not _is_integer(text)
    if bare and text not in {"nil", "any", "waits", "error", "..."}:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdigit()
