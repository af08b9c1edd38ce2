"""Planted bugs in certificates: what is accepted by mistake lets one program pose as another."""

from typing import Final

from tests.mutations.mutation import Mutation

PACKAGE: Final = "crdtstream/certificates/"
AUTHORITY: Final = "tests/certificates/test_authority.py::"
CERTIFICATE: Final = "tests/certificates/test_certificate.py::"
CHAINS: Final = "tests/certificates/test_chains.py::"
CHECKING: Final = "tests/certificates/test_checking.py::"
CLI: Final = "tests/cli/test_certs.py::"
FILES: Final = "tests/certificates/test_files.py::"
HANDSHAKES: Final = "tests/certificates/test_handshakes.py::"
NAMES: Final = "tests/certificates/test_names.py::"
SHOWING: Final = "tests/certificates/test_showing.py::"

NODE_FILES: Final = "tests/certificates/test_node_files.py::"
WATCHING: Final = "tests/certificates/test_watching.py::"

CERTIFICATES: Final = (
    Mutation(
        "half-of-a-change-is-used",
        PACKAGE + "node_files.py",
        "        if not verdict.is_good:\n",
        "        if verdict.findings is None:\n",
        (
            WATCHING + "test_halfway_through_a_change_the_former_set_goes_on",
            NODE_FILES + "test_a_key_of_another_certificate_makes_no_set",
        ),
        "a node that looks between the renames of key and certificate refuses all connections",
    ),
    Mutation(
        "a-bad-change-leaves-no-trace",
        PACKAGE + "watching.py",
        "        self.reload_failures += 1\n",
        "        return\n",
        (WATCHING + "test_halfway_through_a_change_the_former_set_goes_on",),
        "a renewal fails each day, nobody hears of it, and one day the certificate expires",
    ),
    Mutation(
        "a-refused-file-is-never-read-again",
        PACKAGE + "watching.py",
        "if stamped == self._stamped and self.fault is None and not asked:",
        "if stamped == self._stamped and not asked:",
        (WATCHING + "test_files_that_become_good_by_themselves_are_used",),
        "a certificate that was delivered a minute before it is valid is never used",
    ),
    Mutation(
        "a-link-is-looked-at-and-not-its-target",
        PACKAGE + "node_files.py",
        "        found = os.stat(path)\n",
        "        found = os.lstat(path)\n",
        (NODE_FILES + "test_stamps_differ_after_each_kind_of_change",),
        "a Secret of Kubernetes is renewed, and the node uses the old one until it expires",
    ),
    Mutation(
        "a-region-uses-the-files-of-another",
        "crdtstream/certificates/node_files.py",
        "check_of_host(pair, now) if wanted is None else check(pair, wanted, now)",
        "check_of_host(pair, now) if wanted is None else check(pair, Wanted(), now)",
        (NODE_FILES + "test_a_certificate_that_peers_would_refuse_is_no_set",),
        "region 1 is started with the files of region 2, and poses as it",
    ),
    Mutation(
        "password-file-for-everybody",
        "crdtstream/certificates/node_files.py",
        "    if found.access.is_open:\n",
        "    if found.access is None:\n",
        (NODE_FILES + "test_an_encrypted_key_is_read_with_the_password_of_a_file",),
        "the key is encrypted, and every user of the machine reads its password",
    ),
    Mutation(
        "certificate-with-any-key",
        PACKAGE + "checking.py",
        "    if not leaf.has_key(pair.key):\n",
        "    if leaf.has_key(pair.key) is None:\n",
        (CHECKING + "test_a_key_of_another_certificate_is_found",),
        "half of a change is used, and no handshake succeeds any more",
    ),
    Mutation(
        "certificate-issued-by-a-namesake",
        PACKAGE + "certificate.py",
        "        except (*_WRONG, InvalidSignature):\n            return False\n",
        "        except _WRONG:\n            return False\n"
        "        except InvalidSignature:\n            return True\n",
        (
            CERTIFICATE + "test_it_was_issued_by_the_one_that_signed_it",
            CHAINS + "test_another_authority_is_refused_though_it_has_the_same_name",
        ),
        "a certificate of an authority with the same name passes, and peers refuse it",
    ),
    Mutation(
        "certificate-of-two-holders",
        PACKAGE + "certificate.py",
        "if len(self.uris) == 1 else None",
        "if self.uris else None",
        (CHECKING + "test_a_certificate_names_exactly_one_holder",),
        "the certificate decides which of its regions it is",
    ),
    Mutation(
        "certificate-with-names-of-other-regions",
        PACKAGE + "checking.py",
        "    if within != right or not common <= right:\n",
        "    if not right <= within or not common <= right:\n",
        (
            CHECKING + "test_a_region_has_its_own_dns_name_and_no_other_regions",
            CHECKING + "test_an_operator_with_a_regions_dns_name_could_pose_as_its_server",
        ),
        "a wildcard, or an operator, serves as every region",
    ),
    Mutation(
        "certificate-name-with-a-last-dot",
        PACKAGE + "names.py",
        'name.lower().removesuffix("."), domain.lower()',
        "name.lower(), domain.lower()",
        (
            NAMES + "test_a_domain_contains_itself_and_names_below_it",
            CHECKING + "test_a_region_has_its_own_dns_name_and_no_other_regions",
        ),
        "gRPC removes the dot, and the name is that of another region",
    ),
    Mutation(
        "certificate-domain-of-half-a-label",
        PACKAGE + "names.py",
        'name.endswith(f".{domain}")',
        "name.endswith(domain)",
        (
            NAMES + "test_a_domain_contains_itself_and_names_below_it",
            AUTHORITY + "test_a_host_that_may_not_stand_in_a_certificate_is_refused",
        ),
        "what example.com permits is issued for notexample.com, and TLS refuses it",
    ),
    Mutation(
        "certificate-region-in-two-spellings",
        PACKAGE + "names.py",
        '_NUMBER: Final = r"[1-9][0-9]{0,3}"',
        '_NUMBER: Final = r"(?!0+$)[0-9]{1,4}"',
        (NAMES + "test_a_uri_that_is_not_exactly_right_names_nobody",),
        "one region has two names, and a list of revoked names has one of them",
    ),
    Mutation(
        "certificate-host-is-a-region",
        PACKAGE + "authority.py",
        "    if is_within(name, DOMAIN):\n",
        "    if name == DOMAIN:\n",
        (AUTHORITY + "test_a_host_that_may_not_stand_in_a_certificate_is_refused",),
        "region 1 gets a certificate with which it serves as region 2",
    ),
    Mutation(
        "certificate-lets-operators-serve",
        PACKAGE + "authority.py",
        "    if holder.role is Role.REGION:\n        usages",
        "    if holder.role is not None:\n        usages",
        (HANDSHAKES + "test_an_operator_never_serves_as_a_region",),
        "an operator called localhost serves as that host",
    ),
    Mutation(
        "certificate-outlives-its-authority",
        PACKAGE + "authority.py",
        "    if ends > certificate.not_after:\n",
        "    if now > certificate.not_after:\n",
        (AUTHORITY + "test_nothing_is_issued_that_outlives_the_authority",),
        "it stops working before the date that it shows",
    ),
    Mutation(
        "certificate-of-an-unproved-request",
        PACKAGE + "certificate.py",
        "        if not request.is_signature_valid:\n",
        "        if request.is_signature_valid is None:\n",
        (CERTIFICATE + "test_a_request_that_its_key_did_not_sign_is_refused",),
        "someone has another one's key certified under their own name",
    ),
    Mutation(
        "certificate-chain-with-expired-authorities",
        PACKAGE + "chain.py",
        "        yield from findings_of_validity(one, now, is_leaf=place == 0)\n",
        "        if place == 0:\n"
        "            yield from findings_of_validity(one, now, is_leaf=place == 0)\n",
        (
            CHAINS + "test_a_chain_that_tls_refuses_has_a_finding[root-expired]",
            CHAINS + "test_the_end_is_that_of_the_first_certificate_that_expires",
        ),
        "a pair whose authority has expired replaces one that still works",
    ),
    Mutation(
        "certificate-chain-one-too-deep",
        PACKAGE + "chain.py",
        "between > one.path_length:\n",
        "between > one.path_length + 1:\n",
        (CHAINS + "test_a_chain_that_tls_refuses_has_a_finding[too-deep]",),
        "a chain passes that TLS refuses",
    ),
    Mutation(
        "certificate-chain-ignores-what-is-excluded",
        PACKAGE + "chain.py",
        "if not is_allowed or any(does_match(name, tree) for tree in forbidden):",
        "if not is_allowed:",
        (CHAINS + "test_a_chain_that_tls_refuses_has_a_finding[excluded]",),
        "a chain passes that TLS refuses",
    ),
    Mutation(
        "certificate-key-for-all-to-read",
        "crdtstream/cli/certs.py",
        "files[KEY] = NewFile(key_pem(key), PRIVATE)",
        "files[KEY] = NewFile(key_pem(key), PUBLIC)",
        (CLI + "test_a_holder_gets_all_that_it_needs",),
        "once it is copied, any user of the machine poses as the region",
    ),
    Mutation(
        "certificate-key-for-a-group-to-read",
        PACKAGE + "checking.py",
        "MODE_MAX_OF_ROOT if self.owner == ROOT else MODE_MAX",
        "MODE_MAX_OF_ROOT",
        (CHECKING + "test_a_key_that_is_open_to_others_is_found",),
        "every user of a group such as `users` poses as the region",
    ),
    Mutation(
        "certificate-key-stays-after-a-failure",
        PACKAGE + "files.py",
        "    finally:\n        shutil.rmtree(unfinished, ignore_errors=True)\n",
        "    finally:\n        pass\n",
        (FILES + "test_a_write_that_fails_leaves_nothing",),
        "a key without a certificate lies in a hidden folder",
    ),
    Mutation(
        "certificate-names-steer-the-terminal",
        PACKAGE + "showing.py",
        "{printable(text)}",
        "{text}",
        (SHOWING + "test_names_never_control_a_terminal",),
        "a name in a certificate changes what the terminal shows of the rest",
    ),
    Mutation(
        "authorities-of-any-file-in-a-folder",
        PACKAGE + "node_files.py",
        "for name in names if _HASHED.fullmatch(name))",
        "for name in names)",
        (NODE_FILES + "test_authorities_of_a_folder_are_those_that_rehash_has_named",),
        "any certificate that lies in the folder becomes an authority",
    ),
    Mutation(
        "a-folder-of-authorities-is-read-once",
        PACKAGE + "node_files.py",
        "        found = () if self.ca_folder is None else authority_files(self.ca_folder)\n",
        "        found = ()\n",
        (NODE_FILES + "test_an_authority_that_is_taken_out_of_the_folder_is_seen",),
        "an authority that is replaced in the folder is trusted until the node restarts",
    ),
    Mutation(
        "a-folder-of-authorities-of-any-size",
        PACKAGE + "node_files.py",
        "        if len(files) > AUTHORITY_FILES_MAX:",
        "        if False:",
        (NODE_FILES + "test_a_folder_of_the_whole_web_is_refused",),
        "/etc/ssl/certs lets in whoever has a certificate of any website",
    ),
)
