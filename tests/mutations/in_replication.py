"""Planted bugs in links: what is sent, asked for, taken, and acknowledged."""

from typing import Final

from tests.mutations.mutation import Mutation

LINK: Final = "tests/region/test_link.py::"
SERVE: Final = "tests/region/test_serve.py::"
LISTENERS: Final = "tests/region/test_listeners.py::"

REPLICATION: Final = (
    # --- Passwords that differ ---
    # --- Rule 3: what a peer cannot have is not believed ---
    Mutation(
        "a-link-that-ended-is-still-believed",
        "crdtstream/region/links/serve.py",
        "        if self.is_over:\n            return\n        own = self._own\n",
        "        own = self._own\n        if self.is_over:\n"
        "            own.learn(self.region, ack.durable_vv, by=self.region)\n            return\n",
        (SERVE + "test_an_ack_of_what_was_never_sent_ends_the_link_and_teaches_nothing",),
        "what a peer had before it lost its disk comes late, and counts",
    ),
    # --- Rule 3: what is told is durable ---
    # --- How often ---
    # --- Links that have nothing to tell ---
    # --- What is asked for ---
    Mutation(
        "route-down-since-the-last-failure",
        "crdtstream/region/links/routes.py",
        "        elif route.down_since is None:\n",
        "        else:\n",
        (LINK + "test_an_origin_without_a_working_link_is_asked_of_others_after_a_while",),
        "a link that fails again and again is never relayed",
    ),
    # --- Numbering: rule 18 ---
    # --- What is let in ---
    # --- What is sent ---
    # --- Who listens in other regions ---
    Mutation(
        "listeners-without-bound",
        "crdtstream/region/links/listeners.py",
        "            if len(name) > NAME_BYTES_MAX or size > NAMES_BYTES_MAX.value:\n"
        "                return False\n",
        "",
        (LISTENERS + "test_names_beyond_the_bounds_are_not_told",),
        "a client that subscribes to many names ends the links of its region",
    ),
    Mutation(
        "publish-counts-whom-it-does-not-reach",
        "crdtstream/region/links/links.py",
        "            if serve is not None and serve.publish(publication):\n"
        "                reached.append(peer)\n",
        "            reached.append(peer)\n"
        "            if serve is not None and serve.publish(publication):\n"
        "                pass\n",
        (LISTENERS + "test_publish_does_not_count_subscribers_behind_a_paused_link",),
        "PUBLISH counts listeners who are told nothing",
    ),
)
