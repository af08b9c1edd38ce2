"""Planted bugs in TLS for clients: who gets in, what runs, and what a crowd can do."""

from typing import Final

from tests.mutations.mutation import Mutation

TRANSPORT: Final = "crdtstream/resp/transport/"
CONFIG: Final = "tests/resp/test_tls_config.py::"
HANDSHAKES: Final = "tests/resp/test_tls_handshakes.py::"
LIKE_REDIS: Final = "tests/resp/test_tls_like_redis.py::"
OF_TRANSPORT: Final = "tests/resp/test_tls_transport.py::"
SETTINGS: Final = "tests/cli/test_settings.py::"

TLS: Final = (
    Mutation(
        "a-client-without-certificate-gets-in",
        "crdtstream/certificates/options.py",
        '    "yes": ssl.CERT_REQUIRED,\n',
        '    "yes": ssl.CERT_OPTIONAL,\n',
        (LIKE_REDIS + "test_tls_auth_clients",),
        "tls-auth-clients yes asks for a certificate, and lets in who shows none",
    ),
    Mutation(
        "the-context-of-before-a-rotation",
        TRANSPORT + "contexts.py",
        "if made is None or made[0] != current.version or made[1] is not self.options:",
        "if made is None or made[1] is not self.options:",
        (
            CONFIG + "test_new_connections_get_a_replaced_certificate_and_open_ones_stay",
            CONFIG + "test_new_connections_are_checked_by_a_replaced_ca_file",
        ),
        "the certificate expires, although the renewed one has been in its file for weeks",
    ),
    Mutation(
        "options-of-before-a-config-set",
        TRANSPORT + "contexts.py",
        "if made is None or made[0] != current.version or made[1] is not self.options:",
        "if made is None or made[0] != current.version:",
        (LIKE_REDIS + "test_tls_auth_clients",),
        "CONFIG SET says OK, and clients are checked as before",
    ),
    Mutation(
        "bytes-that-openssl-holds-are-forgotten",
        TRANSPORT + "tls.py",
        "if not self._sent_end and self.is_reading() and self._socket.pending():",
        "if False:",
        (OF_TRANSPORT + "test_bytes_that_openssl_holds_are_not_forgotten",),
        "a pipeline stops in the middle until its client sends something more",
    ),
    Mutation(
        "a-cut-stream-looks-complete",
        TRANSPORT + "tls.py",
        "            if is_whole and not self._sent_end:\n",
        "            if not self._sent_end:\n",
        (OF_TRANSPORT + "test_a_client_that_does_not_read_is_cut_off_and_sees_no_end",),
        "a client takes the first part of a reply for all that there is",
    ),
    Mutation(
        "after-a-fatal-error-reading-goes-on",
        TRANSPORT + "tls.py",
        "        if error is not None:\n            self._lose(error)\n        elif data:",
        "        if error is not None:\n            self._end_reading()\n        elif data:",
        (
            OF_TRANSPORT + "test_held_requests_of_a_cut_stream_do_not_run",
            OF_TRANSPORT + "test_a_stream_that_is_cut_gets_no_answer",
        ),
        "somebody on the wire ends a stream, and the node takes that for the client's own end",
    ),
    Mutation(
        "plain-bytes-run-behind-the-end-of-tls",
        TRANSPORT + "tls.py",
        "        if not data:\n            self._end_reading()\n\n    # --- Writing",
        "        if data:\n            self._protocol.data_received(data)\n        else:\n"
        "            self._end_reading()\n\n    # --- Writing",
        (OF_TRANSPORT + "test_the_protocol_gets_nothing_behind_the_end_of_tls",),
        "somebody on the wire adds commands to a connection that TLS no longer protects",
    ),
    Mutation(
        "a-half-sent-record-is-sent-again-otherwise",
        TRANSPORT + "tls.py",
        "                unsent[0] = memoryview(first)[sent:]\n",
        "                unsent[0] = memoryview(first)[sent + 1 :]\n",
        (OF_TRANSPORT + "test_a_write_that_had_to_wait_goes_on_where_it_was",),
        "a slow reader gets a stream with holes",
    ),
    Mutation(
        "a-write-that-wants-to-read-waits-for-ever",
        TRANSPORT + "tls.py",
        "        except ssl.SSLWantReadError:\n            self._write_waits = _Wait.READABLE\n",
        "        except ssl.SSLWantReadError:\n            pass\n",
        (OF_TRANSPORT + "test_each_direction_waits_for_what_openssl_wants",),
        "replies stay in the node when OpenSSL wants the other event first",
    ),
    Mutation(
        "the-bound-on-handshakes-is-ignored",
        TRANSPORT + "handshakes.py",
        "if len(self._open) >= HANDSHAKES_MAX.value and not self._drop_slowest():",
        "if len(self._open) > (1 << 20):",
        (HANDSHAKES + "test_there_are_not_more_handshakes_than_allowed",),
        "ten thousand clients that only connect take all files and memory of the node",
    ),
    Mutation(
        "a-slow-handshake-is-never-dropped",
        TRANSPORT + "handshakes.py",
        "            HANDSHAKE_SECONDS_MAX.value, self._drop_late, handshake\n",
        "            3600.0, self._drop_late, handshake\n",
        (
            HANDSHAKES + "test_a_client_that_takes_too_long_is_dropped_and_counted",
            HANDSHAKES + "test_a_byte_now_and_then_does_not_help",
        ),
        "a client that sends a byte now and then holds its place for ever",
    ),
    Mutation(
        "all-handshakes-in-one-turn",
        TRANSPORT + "handshakes.py",
        "for _ in range(min(STEPS_PER_TURN.value, len(due))):",
        "for _ in range(len(due)):",
        (HANDSHAKES + "test_a_turn_of_the_loop_has_few_steps",),
        "a thousand clients that reconnect at once stop the node for a second",
    ),
    Mutation(
        "silent-clients-keep-others-out",
        TRANSPORT + "handshakes.py",
        "        if oldest.is_due or self._crowded_until_s(oldest) > self._loop.time():\n",
        "        if oldest:\n",
        (HANDSHAKES + "test_silent_clients_do_not_keep_others_out",),
        "256 clients that say nothing close the port for 10 s, again and again",
    ),
    Mutation(
        "hello-asks-again-after-a-certificate",
        "crdtstream/resp/commands/connection/hello.py",
        "        if not session.authenticated and self._users.ask:\n",
        "        if login is None and self._users.ask:\n",
        (LIKE_REDIS + "test_hello_needs_no_auth_where_a_certificate_is_the_login",),
        "a client of RESP3 with a certificate has to be given a password as well",
    ),
    Mutation(
        "reset-keeps-the-login",
        "crdtstream/resp/commands/connection/hello.py",
        "        session.user = self._users.default\n"
        "        session.authenticated = not self._users.ask\n",
        "",
        (LIKE_REDIS + "test_reset_ends_the_login_by_certificate",),
        "a pool that resets its connections hands on the rights of their last user",
    ),
    Mutation(
        "a-refused-client-is-reset",
        TRANSPORT + "handshakes.py",
        "            self._refuse(handshake)\n",
        "            self._drop(handshake)\n",
        (HANDSHAKES + "test_a_client_that_has_sent_commands_reads_why_it_is_refused",),
        "a client whose certificate has expired reports a broken pipe, and nobody knows why",
    ),
    Mutation(
        "a-refused-client-keeps-its-place",
        TRANSPORT + "handshakes.py",
        "            REFUSED_CLIENT_SECONDS_MAX.value, self._drop, handshake\n",
        "            3600.0, self._drop, handshake\n",
        (HANDSHAKES + "test_a_refused_client_is_ended_if_it_does_not_hang_up",),
        "256 refused clients that stay close the port",
    ),
    Mutation(
        "a-refused-client-may-send-on",
        TRANSPORT + "handshakes.py",
        "        if not data or handshake.discarded_bytes >= REFUSED_CLIENT_BYTES_MAX.value:\n",
        "        if not data:\n",
        (HANDSHAKES + "test_a_refused_client_that_sends_on_is_ended",),
        "a refused client has the node read as much as it likes",
    ),
    Mutation(
        "a-bug-in-one-handshake-ends-all",
        TRANSPORT + "handshakes.py",
        "                except Exception as bug:  # noqa: BLE001 - the others go on\n"
        "                    self._fail(handshake, bug)\n        finally:\n",
        "                except MemoryError as bug:\n"
        "                    self._fail(handshake, bug)\n        except MemoryError:\n"
        "            pass\n        else:\n",
        (HANDSHAKES + "test_a_handshake_that_breaks_ends_no_others",),
        "one client that finds a bug closes the TLS port for all until the node starts again",
    ),
    Mutation(
        "all-names-of-a-certificate-are-decoded",
        TRANSPORT + "contexts.py",
        "    if own.context.verify_mode is ssl.CERT_NONE:\n        return None\n",
        "    if not own.getpeercert():\n        return None\n",
        (HANDSHAKES + "test_names_that_cannot_be_decoded_keep_no_client_out",),
        "a certificate with an address in Latin-1 shakes hands in vain",
    ),
    Mutation(
        "an-unchecked-certificate-logs-in",
        "crdtstream/resp/server.py",
        "return {CERTIFICATE_NAME: common_name(own)} if self.logs_in_by_certificate else {}",
        "return {CERTIFICATE_NAME: common_name(own)}",
        (LIKE_REDIS + "test_only_a_checked_certificate_logs_in",),
        "with tls-auth-clients-user off, a certificate stands for a password",
    ),
    Mutation(
        "any-name-logs-in",
        "crdtstream/resp/server.py",
        "        if user is not None and user.is_on:\n",
        "        user = user or self.database.users.default\n        if user.is_on:\n",
        (LIKE_REDIS + "test_a_certificate_of_no_user_logs_nobody_in",),
        "every certificate of the authority is the user default",
    ),
    Mutation(
        "ciphers-without-authentication",
        "crdtstream/certificates/options.py",
        'if cipher["auth"] == "auth-null" or cipher["strength_bits"] < STRENGTH_BITS_MIN:',
        "if False:",
        (CONFIG + "test_a_value_that_cannot_be_had_is_refused",),
        "one wrong word in tls_ciphers, and anybody on the wire can pose as the node",
    ),
    Mutation(
        "renegotiation-is-allowed",
        "crdtstream/certificates/options.py",
        "context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION",
        "context.options = (context.options | 1 << 8) & ~ssl.OP_NO_RENEGOTIATION",
        (HANDSHAKES + "test_no_connection_is_negotiated_twice",),
        "one client has the node shake hands for ever, on one connection",
    ),
    Mutation(
        "a-bad-certificate-replaces-a-good-one",
        "crdtstream/resp/commands/server/tls.py",
        "        raise BadValueError(NOT_CHANGED + str(error)) from error\n\n\ndef _setting",
        "        return certificates.current, lambda: setattr(certificates, 'paths', paths)\n"
        "\n\ndef _setting",
        (CONFIG + "test_a_bad_pair_is_refused_and_the_old_one_goes_on",),
        "a slip in CONFIG SET tls-cert-file is noticed when the node starts again",
    ),
)
