"""Values that are not markup already are text."""

from crdtstream.page.markup import element


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("b", "<i>", element("i", 1), title='"<') == (
        '<b title="&quot;&lt;">&lt;i&gt;<i>1</i></b>'
    )
