"""Texts of others on a terminal: names, addresses and errors that a client or a peer chose."""


def printable(text: bytes | str) -> str:
    """The text on one line, without what drives a terminal: that is escaped."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))
