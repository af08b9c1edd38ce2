"""Completion of a command line: which words may stand where the cursor is.

Names of commands and options are read from the commands themselves; values are asked of a function,
as only a program knows its nodes and parameters.  The same serves the Tab key of a program's own
shell, and those of bash, zsh and fish (``cli/completion.py``).
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

# In it a shell hands over the line up to the cursor.
VARIABLE: Final = "_CRDTSTREAM_COMPLETE"


@dataclass(slots=True)
class Typed:
    """A command line up to the word that is being typed.

    Attributes:
        command: the command that the words name, as far as they do.
        path: its name, without that of the program: ``("info", "db")``.
        arguments: words that are no options.
        options: the last value of each option that takes one.
        flags: all options that were given, also those without a value.
        wanted: the option whose value is being typed; None: none is.
    """

    command: Any
    path: tuple[str, ...] = ()
    arguments: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    wanted: str | None = None

    def take(self, word: str) -> None:
        """Go on behind one more word."""
        if self.wanted is not None:
            self.options[self.wanted] = word
            self.wanted = None
        elif word.startswith("--") and "=" in word:
            name, _, value = word.partition("=")
            self.flags.add(name)
            self.options[name] = value
        elif word.startswith("-") and len(word) > 1:
            self.flags.add(word)
            option = self.option(word)
            if option is not None and not option.is_flag:
                self.wanted = word
        elif word in self.below():
            self.command = self.command.commands[word]
            self.path += (word,)
        else:
            self.arguments.append(word)

    def below(self) -> Sequence[str]:
        """Commands that may come next; none behind an argument."""
        return [] if self.arguments else list(getattr(self.command, "commands", ()))

    def option(self, name: str) -> Any:
        """The option of this name, as Typer has it; None: the command has no such one."""
        return next((one for one in self.command.params if name in one.opts), None)


Values: TypeAlias = Callable[[Typed], Iterable[str]]


def typed(command: Any, words: Iterable[str]) -> Typed:
    """Read words as a program would; ``command`` is the whole program."""
    found = Typed(command)
    for word in words:
        found.take(word)
    return found


def candidates(command: Any, words: Sequence[str], begun: str, values: Values) -> list[str]:
    """Words that begin with ``begun`` and may follow ``words``, ascending.

    Args:
        command: the whole program.
        values: values of an option (``wanted``) or argument; it may have too many.
    """
    here = typed(command, words)
    if here.wanted is None and begun.startswith("--") and "=" in begun:
        name, _, begun_value = begun.partition("=")
        here.wanted = name
        return [f"{name}={one}" for one in _fitting(values(here), begun_value)]
    if here.wanted is not None:
        return _fitting(values(here), begun)
    if begun.startswith("-"):
        return _fitting(_options(here), begun)
    return _fitting([*here.below(), *values(here)], begun)


def _options(here: Typed) -> Iterable[str]:
    yield "--help"
    for one in here.command.params:
        if one.param_type_name == "option" and (one.multiple or not here.flags & set(one.opts)):
            yield from one.opts


def _fitting(words: Iterable[str], begun: str) -> list[str]:
    return sorted({word for word in words if word.startswith(begun)})


def split_line(line: str) -> tuple[list[str], str]:
    """The words of a line up to the cursor, and the one that is begun, without quotes."""
    if (len(line) - len(line.rstrip("\\"))) % 2:
        # It would join the next character to the word, and there is none yet.
        line = line[:-1]
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        is_begun = bool(closing) or (bool(words) and not line[-1:].isspace())
        return (words[:-1], words[-1]) if is_begun else (words, "")
    raise AssertionError("one of the two quotes closes what is open")


def line_to_complete() -> str | None:
    """The line up to the cursor, if a shell asks for completion; None: it does not."""
    return os.environ.get(VARIABLE)


def print_candidates(
    line: str,
    program: Callable[[Sequence[str]], Any],
    values: Values,
    names: Iterable[str] = (),
) -> None:
    """Print the words that fit, one a line.

    Args:
        line: the name of the program, and words up to the cursor.
        program: its commands, as far as these words need them.
        values: as of ``candidates``.
        names: of its commands, if that is known without loading them; else none.
    """
    (*words, begun) = _behind_name(line)
    if names and not words and not begun.startswith("-"):
        found = sorted(name for name in names if name.startswith(begun))
    else:
        found = candidates(program(words), words, begun, values)
    sys.stdout.write("".join(f"{word}\n" for word in found))


def _behind_name(line: str) -> list[str]:
    words, begun = split_line(line)
    return [*words[1:], begun]
