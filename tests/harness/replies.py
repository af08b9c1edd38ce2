"""Types that a test expects of a reply, for the type checker and at run time: others fail it."""

from typing import Any, TypeVar

import hiredis

from crdtstream.commands.reply import Encoded

T = TypeVar("T")


def of_type(kind: type[T], reply: object) -> T:
    """The reply, which is of this type."""
    assert isinstance(reply, kind), reply
    return reply


def list_of(kind: type[T], reply: object) -> list[T]:
    """The reply, which is a list, and each item of it of this type."""
    return [of_type(kind, item) for item in of_type(list, reply)]


def dict_of(kind: type[T], reply: object) -> dict[str, T]:
    """The reply, which is a map of names, and each value of it of this type."""
    pairs = of_type(dict, reply).items()
    return {of_type(str, name): of_type(kind, value) for name, value in pairs}


def rows_of(reply: object) -> list[Any]:
    """The rows of an encoded reply, such as those of XPENDING, as Python."""
    reader = hiredis.Reader()
    reader.feed(of_type(Encoded, reply).data)
    return of_type(list, reader.gets())
