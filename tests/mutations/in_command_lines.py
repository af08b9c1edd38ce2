"""Planted bugs in what people type: rladmin, its shell and history, watches, completion."""

from typing import Final

from tests.mutations.mutation import Mutation

HISTORY: Final = "crdtstream/cli/history.py"
TABLES: Final = "crdtstream/cli/rladmin_tables.py"
OF_COMPLETING: Final = "tests/cli/test_completing.py::"
OF_HISTORY: Final = "tests/cli/test_history.py::"
OF_RLADMIN: Final = "tests/cli/test_rladmin.py::"
OF_CLI: Final = "tests/cli/test_cli.py::"
OF_WATCHING: Final = "tests/cli/test_watching.py::"

COMMAND_LINES: Final = (
    Mutation(
        "a-history-that-others-read",
        HISTORY,
        "                os.fchmod(file.fileno(), FILE_MODE)\n",
        "",
        (OF_HISTORY + "test_the_file_is_for_its_owner_alone_whatever_the_umask_is",),
        "a history that was restored with other rights shows all users what an operator does",
    ),
    Mutation(
        "a-history-with-passwords",
        HISTORY,
        "return not (_SECRET.search(",
        "return not (False and _SECRET.search(",
        (OF_HISTORY + "test_lines_with_secrets_are_not_kept",),
        "a password that was typed by mistake is in a file for good",
    ),
    Mutation(
        "a-history-by-a-link",
        HISTORY,
        " | os.O_NOFOLLOW",
        "",
        (OF_HISTORY + "test_a_link_to_another_file_is_not_followed",),
        "a link in the folder lets lines be appended to another file of the operator",
    ),
    Mutation(
        "a-history-without-bound",
        HISTORY,
        "if len(found) > len(kept):",
        "if False:",
        (OF_HISTORY + "test_a_file_that_has_grown_is_made_shorter_and_stays_closed",),
        "a script that uses the shell fills the home folder in a year",
    ),
    Mutation(
        "a-stream-drives-the-terminal",
        "crdtstream/command_line/printable.py",
        "one if one.isprintable() else repr(one)[1:-1]",
        "one",
        (OF_RLADMIN + "test_names_that_clients_chose_drive_no_terminal",),
        "a client names a stream so that the table of an operator shows what the client likes",
    ),
    Mutation(
        "a-peer-drives-the-terminal-in-columns",
        "crdtstream/cli/tables.py",
        "([printable(cell) for cell in row] for row in rows)",
        "rows",
        (OF_RLADMIN + "test_texts_that_a_peer_chose_drive_no_terminal",),
        "the fault that a node reports changes the window of an operator, or hides lines",
    ),
    Mutation(
        "a-peer-drives-the-terminal-in-tables",
        "crdtstream/cli/tables.py",
        "(Text(printable_lines(one)) if isinstance(one, str) else one for one in cells)",
        "cells",
        (OF_CLI + "test_texts_that_a_peer_chose_drive_no_terminal",),
        "the address that a node reports changes the window of an operator, or hides lines",
    ),
    Mutation(
        "a-peer-drives-the-terminal-in-sentences",
        "crdtstream/cli/tables.py",
        "        printable(text), markup=False",
        "        text, markup=False",
        (OF_CLI + "test_texts_that_a_peer_chose_drive_no_terminal",),
        "the fault that a node reports changes the window of an operator, or hides lines",
    ),
    Mutation(
        "a-peer-drives-the-terminal-in-errors",
        "crdtstream/command_line/exit.py",
        "{printable_lines(str(text))}",
        "{text}",
        (OF_RLADMIN + "test_an_error_that_a_peer_chose_drives_no_terminal",),
        "the reason of a refusal changes the window of an operator, or hides lines",
    ),
    Mutation(
        "a-bug-ends-the-shell",
        "crdtstream/cli/rladmin_shell.py",
        "        except Exception as error:",
        "        except ZeroDivisionError as error:",
        (OF_RLADMIN + "test_no_line_ends_the_shell",),
        "one line with a bug ends the session of an operator, with a traceback",
    ),
    Mutation(
        "rladmin-reads-any-number-of-digits",
        "crdtstream/cli/rladmin_words.py",
        " and len(digits) <= DIGITS_MAX",
        "",
        (OF_RLADMIN + "test_misuse_is_refused_before_a_node_is_asked",),
        "a number with 5,000 digits ends the command by an exception",
    ),
    Mutation(
        "rladmin-tunes-the-regions-that-know-a-name",
        "crdtstream/cli/rladmin_tune.py",
        "        if name not in known:\n",
        "        if name not in known and len(pairs) > 1:\n",
        (OF_RLADMIN + "test_a_parameter_that_one_region_lacks_changes_no_other",),
        "with --all some regions are changed, and one of another version is not",
    ),
    Mutation(
        "completion-runs-the-command",
        "crdtstream/cli/rladmin.py",
        "    if line is None:\n",
        "    if True:\n",
        (OF_COMPLETING + "test_a_shell_that_asks_gets_words_and_no_command_runs",),
        "Tab behind a half-typed command runs it",
    ),
    Mutation(
        "a-line-goes-to-the-nodes-of-the-shell-too",
        "crdtstream/cli/rladmin_shell.py",
        "    named = here.flags | (places if here.flags & places else set())\n",
        "    named = here.flags\n",
        (OF_RLADMIN + "test_options_of_the_shell_count_where_a_line_has_none_of_them",),
        "a line that names a folder is refused, as the shell's address is added to it",
    ),
    Mutation(
        "a-dead-node-ends-the-watch",
        "crdtstream/command_line/watching.py",
        "        if end.exit_code == MISUSED:\n",
        "        if end.exit_code:\n",
        (OF_WATCHING + "test_a_result_that_cannot_be_had_ends_no_watch",),
        "the screen of an operator who watches a restart ends with the first error",
    ),
    Mutation(
        "our-column-among-all",
        TABLES,
        'or (is_all and column.extra not in ("address", ""))',
        'or (is_all and column.extra != "")',
        (OF_RLADMIN + "test_columns_are_the_documented_ones_in_their_order",),
        "a script that reads `extra all` by columns finds one more",
    ),
    Mutation(
        "numbers-sorted-as-text",
        TABLES,
        "    return (len(digits), digits)\n",
        "    return (0, digits)\n",
        (OF_RLADMIN + "test_numbers_are_sorted_as_numbers_and_unknown_ones_stand_last",),
        "node:10 stands before node:2",
    ),
)
