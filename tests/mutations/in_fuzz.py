"""Planted bugs at the borders of a node: bounds of what decoders take, and what they refuse.

Without one of them a message of a peer, or a file, takes memory or time without end, or reaches an
assertion that stops the node.
"""

from typing import Final

from tests.mutations.mutation import Mutation

FRAMES: Final = "tests/core/test_frames.py::"
OF_FRAMES: Final = FRAMES + "test_other_bytes_are_refused_before_memory_is_taken_for_them"
NONSENSE: Final = "tests/rules/test_merge_nonsense.py::"
OF_IMAGES: Final = NONSENSE + "test_nonsense_is_found_before_anything_has_changed"
CHECKPOINTS: Final = "tests/rules/test_checkpoints.py::"
OF_LINKS: Final = "tests/replication/test_wire.py::"
PACKING: Final = "tests/core/test_packing.py::"
PARSER: Final = "tests/resp/test_parser.py::"
CODEC: Final = "tests/core/test_codec.py::"
BACKUP: Final = "tests/upkeep/test_backup.py::test_a_backup_that_was_changed_is_refused"
COPY: Final = "tests/replication/test_bootstraps.py::test_impossible_parts_of_a_copy_are_refused"

BORDERS: Final = (
    Mutation(
        "frames-to-be-skipped-are-unpacked",
        "crdtstream/core/frames.py",
        "    if not frame.startswith(FRAME_MAGIC):\n",
        "    if not frame:\n",
        (OF_FRAMES,),
        "ten bytes of a peer reserve up to 4 GiB, and a node that cannot have them ends",
    ),
    Mutation(
        "a-frame-may-claim-any-size",
        "crdtstream/core/frames.py",
        "    if size > bytes_max:\n",
        "    if size > bytes_max << 40:\n",
        (
            OF_FRAMES,
            OF_LINKS + "test_a_frame_that_unpacks_to_too_much_is_refused_before_it_is_unpacked",
        ),
        "a message of some KiB unpacks to as much memory as its sender wants",
    ),
    Mutation(
        "a-frame-need-not-claim-a-size",
        "crdtstream/core/frames.py",
        "    if size is None:\n",
        "    if size is None and frame is FRAME_MAGIC:\n",
        (OF_FRAMES,),
        "what is in a frame is known when all of it has been unpacked",
    ),
    Mutation(
        "macro-nodes-unpack-to-any-size",
        "crdtstream/core/lanes/packing.py",
        "bytes_max=BODY_BYTES_MAX",
        "bytes_max=claimed",
        (PACKING + "test_a_frame_that_claims_too_much_is_refused_before_memory_is_taken_for_it",),
        "a head and a body that agree on a size take that much memory",
    ),
    Mutation(
        "rows-unpack-to-any-size",
        "crdtstream/store/rows.py",
        "bytes_max=self._batch_bytes_max",
        "bytes_max=BATCH_BYTES_MAX << 30",
        (
            "tests/store/test_rows.py::test_a_frame_that_claims_more_than_a_batch_may_have_is_damage",
        ),
        "a row of a restored backup ends the start for want of memory",
    ),
    Mutation(
        "dumps-unpack-to-any-size",
        "crdtstream/commands/keys/dumping.py",
        "payload[len(MAGIC) + 1 : -HASH_BYTES], DUMP_BYTES_MAX.value + _FRAMING_BYTES_MAX\n",
        "payload[len(MAGIC) + 1 : -HASH_BYTES]\n",
        ("tests/commands/test_dumping.py::test_a_payload_does_not_unfold_without_bound",),
        "RESTORE of some KiB takes memory without end",
    ),
    Mutation(
        "columns-without-bytes-of-fields",
        "crdtstream/core/wire/codec.py",
        "        if count * FIELDS_BYTES_MIN > len(message.fields):\n",
        "        if count and not message.fields:\n",
        (
            CODEC + "test_few_bytes_do_not_claim_much_memory",
            CODEC + "test_a_bad_batch_is_refused_with_the_field",
        ),
        "a column of equal numbers has a few bytes, and takes memory for each of 16 million",
    ),
    Mutation(
        "batches-of-any-number-of-effects",
        "crdtstream/core/wire/codec.py",
        "    if not 1 <= message.count <= EFFECTS_PER_BATCH_MAX:\n",
        "    if not message.count:\n",
        (CODEC + "test_a_bad_batch_is_refused_with_the_field",),
        "a batch takes 2^64 of the numbers that its origin has",
    ),
    Mutation(
        "publications-of-any-size",
        "crdtstream/replication/wire.py",
        "        if size > PUBLICATION_BYTES_MAX.value:\n",
        "        if size > PUBLICATION_BYTES_MAX.value << 40:\n",
        ("tests/region/test_publications.py::test_impossible_publications_are_refused",),
        "a message beyond the window fills the memory of all that listen",
    ),
    Mutation(
        "messages-of-any-number-of-batches",
        "crdtstream/replication/wire.py",
        "            if count > BATCHES_MAX.value:\n",
        "            if count > len(content):\n",
        (OF_LINKS + "test_a_list_of_very_many_batches_is_refused_before_each_takes_memory",),
        "a message of 100 KiB takes 20 GiB, as each empty batch becomes an object",
    ),
    Mutation(
        "images-with-any-fields",
        "crdtstream/replication/bootstrap_wire.py",
        "            if wrong is not None:\n",
        "            if wrong == -1:\n",
        (COPY,),
        "clients get bytes as fields that are no fields, or a reply that a peer made up",
    ),
    Mutation(
        "images-with-any-mode-of-a-group",
        "crdtstream/core/merge/sent.py",
        '            setting_of(b"", content.name, setting)\n',
        "            assert setting\n",
        (OF_IMAGES,),
        "the last step of a merge fails at an assertion, and the node stops",
    ),
    Mutation(
        "handovers-that-do-not-ascend",
        "crdtstream/core/whole/restoring.py",
        "    if not all(a < b for (a, _), (b, _) in pairwise(content.pending)):\n",
        "    if not all(a <= b for (a, _), (b, _) in pairwise(content.pending)):\n",
        (OF_IMAGES,),
        "an assertion about what is handed over stops the node",
    ),
    Mutation(
        "images-with-any-region",
        "crdtstream/core/checkpoint/contents.py",
        "msgspec.Meta(ge=1, le=REGION_MAX)",
        "msgspec.Meta(ge=0)",
        (OF_IMAGES,),
        "a region that cannot be gets lanes, and its number does not fit where it is sent",
    ),
    Mutation(
        "images-with-dots-before-the-first",
        "crdtstream/core/merge/sent.py",
        "        if dot.n < 1 or not covers_dot(vv, dot):\n",
        "        if not covers_dot(vv, dot):\n",
        (OF_IMAGES,),
        "a value that no effect gave is in a register for good",
    ),
    Mutation(
        "images-with-tombstones-twice",
        "crdtstream/core/whole/restoring.py",
        "        if len({group for group, _ in content.tombstones}) != len(content.tombstones):\n",
        "        if not content.tombstones and content.number < 0:\n",
        (CHECKPOINTS + "test_an_image_that_says_what_cannot_be_is_refused_at_a_start",),
        "the start ends, though the checkpoint before could be read",
    ),
    Mutation(
        "lower-ids-under-later-dots",
        "crdtstream/core/merge/lanes.py",
        "    if last_id >= first_id:\n",
        "    if last_id == first_id:\n",
        (NONSENSE + "test_lower_ids_under_later_dots_are_refused_without_points",),
        "I5: the last step of a merge fails at an assertion, and the node stops",
    ),
    Mutation(
        "ids-that-were-deleted-there-still-count",
        "crdtstream/core/merge/lanes.py",
        "        left = gone.missing(node.first_n, node.last_n + 1)\n",
        "        left = [(node.first_n, node.last_n + 1)]\n",
        (NONSENSE + "test_lower_ids_behind_a_delete_are_taken",),
        "a region that missed a delete can never be bootstrapped",
    ),
    Mutation(
        "a-line-may-not-be-cut-in-its-end",
        "crdtstream/resp/wire/parser.py",
        "self.limits.inline_bytes_max + len(line_end):",
        "self.limits.inline_bytes_max:",
        (PARSER + "test_cuts_do_not_change_how_long_a_line_may_be",),
        "a line of the greatest length works or not, as the network cuts it",
    ),
    Mutation(
        "lines-of-any-length",
        "crdtstream/resp/wire/parser.py",
        "if len(self._buffer) - self._at > self.limits.inline_bytes_max + len(line_end):\n",
        "if len(self._buffer) - self._at > self.limits.request_bytes_max:\n",
        (PARSER + "test_malformed_input_ends_with_a_clear_error",),
        "a client that sends no line end fills the memory",
    ),
    Mutation(
        "clients-without-login-send-anything",
        "crdtstream/resp/wire/parser.py",
        "        if not self.trusted and length > UNTRUSTED_BULK_BYTES_MAX:\n",
        "        if not self.trusted and length > self._limits.bulk_bytes_max:\n",
        (PARSER + "test_a_client_that_has_not_authenticated_may_send_little",),
        "strangers fill the memory with 512 MiB each",
    ),
    Mutation(
        "a-manifest-names-any-file",
        "crdtstream/upkeep/manifest.py",
        '    if set(plain["files"]) != {LOG_FILE}:\n',
        '    if LOG_FILE not in plain["files"] and plain["files"]:\n',
        (BACKUP,),
        "fsck of a backup reads /dev/zero without end",
    ),
    Mutation(
        "certificates-of-any-size",
        "crdtstream/certificates/files.py",
        "            data = file.read(FILE_BYTES_MAX + 1)\n",
        "            data = file.read()[:FILE_BYTES_MAX]\n",
        ("tests/certificates/test_files.py::test_a_file_that_is_too_large_is_refused",),
        "a wrong path of some GiB is read into memory",
    ),
    Mutation(
        "states-of-any-number-of-images",
        "crdtstream/replication/bootstrap_wire.py",
        "    if max(message.images, message.numbers, message.bytes) > _I64_MAX:\n",
        "    if max(message.images, message.numbers, message.bytes) < 0:\n",
        (COPY,),
        "numbers that SQLite cannot store end the copy with a traceback",
    ),
)
