"""A page as a browser takes it, and text that would be markup if a page let it."""

from html.parser import HTMLParser

HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;\u202e\x00"


class Elements(HTMLParser):
    """All elements of a page, as a browser takes it, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.text.append(data)
