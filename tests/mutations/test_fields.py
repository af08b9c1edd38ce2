"""Each field of each image is read back: planted away, it is noticed (``fields.py``)."""

import msgspec
import pytest

from crdtstream.core.checkpoint.contents import ContentError, GroupContent, packed, unpacked
from crdtstream.core.checkpoint.parts import Kind
from tests.harness.regions import Node
from tests.mutations.fields import all_fields, images_of, restored, said, told, unnoticed
from tests.mutations.known import known

pytestmark = pytest.mark.house


def test_every_field_of_an_image_says_something_of_a_region_that_knows_much() -> None:
    """A field that is new, or not written any more, is missing here until ``known`` has it."""
    assert sorted({*all_fields()} - said(images_of(known()))) == []


def test_a_region_is_restored_as_it_was() -> None:
    region = known()
    images = images_of(region)
    assert told(restored(region, images)) == told(images)


def test_a_restart_without_a_field_is_noticed() -> None:
    """Of all fields, each planted away once."""
    assert unnoticed() == []


def test_a_group_that_is_there_twice_is_refused_with_its_image() -> None:
    images = images_of(known())
    twice = next(image for image in images if image.kind is Kind.GROUP)
    with pytest.raises(ContentError, match=f"image {twice.number}: group b'.' is there twice"):
        Node(1).replica.restore([*images, twice])


def test_a_group_that_names_a_consumer_twice_is_refused_with_its_image() -> None:
    images = images_of(known())
    group = next(image for image in images if image.kind is Kind.GROUP)
    content = unpacked(group.head, GroupContent)
    wrong = msgspec.structs.replace(content, consumers=[*content.consumers, *content.consumers])
    images[images.index(group)] = group._replace(head=packed(wrong))
    with pytest.raises(ContentError, match=f"image {group.number}: consumer 1: .* is there twice"):
        Node(1).replica.restore(images)
