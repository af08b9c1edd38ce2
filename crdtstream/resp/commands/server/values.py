"""A parameter of CONFIG, and the kinds of values that one takes: words, numbers, sizes.

A check reads a text and returns the change that it asks for, or raises.  So CONFIG SET checks all
its values before it changes anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from crdtstream.commands.arguments import I64_MAX, parse_i64
from crdtstream.core.sizes import parse_memory
from crdtstream.machine.open_files import allow_clients
from crdtstream.resp.clients.memory_bound import PERCENT_MAX, MemoryBound, parse_bound
from crdtstream.resp.clients.output_limits import OutputLimitError, OutputLimits

# A text to the change that it asks for.
Check: TypeAlias = Callable[[str], Callable[[], None]]


class BadValueError(Exception):
    """A value that a parameter does not take; the text is Redis's reason."""


class Together(Protocol):
    """Parameters that depend on each other: those of one CONFIG SET are checked as a whole."""

    def check(self, texts: Mapping[str, str]) -> Callable[[], None]:
        """The change to these values, by name.

        Raises:
            BadValueError: they cannot be had; nothing has changed.
        """


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of CONFIG GET.

    Attributes:
        get: the value.
        check: turns a text into what ``set`` takes, or raises BadValueError; None: it cannot be
            changed while the server runs.
        setting: where the configuration file has it, as ``limits.clients_max``; None: nowhere.
        setting_value: its present value in the settings' form.
        further_settings: where it is several settings, the others, by where the file has them.
        together: makes the change, instead of ``check``, which runs before it.
        is_exact: its value is used as it is, and must therefore be UTF-8 (passwords).
    """

    get: Callable[[], str]
    check: Check | None = None
    setting: str | None = None
    setting_value: Callable[[], int | str] | None = None
    further_settings: Callable[[], Mapping[str, int | str]] | None = None
    together: Together | None = None
    is_exact: bool = False


# --- Kinds of values ----------------------------------------------------------------------------


def only(value: str) -> Parameter:
    """A parameter that may be set to what it is."""
    return Parameter(lambda: value, one_of([value], lambda _value: None))


def one_of(values: Sequence[str], change: Callable[[str], None]) -> Check:
    def check(text: str) -> Callable[[], None]:
        word = _word(text, values)
        return lambda: change(word)

    return check


def _word(text: str, values: Sequence[str]) -> str:
    if text.lower() not in map(str.lower, values):
        words = ", ".join(value or '""' for value in values)
        raise BadValueError(f"argument(s) must be one of the following: {words}")
    return text.lower()


def _number(least: int, most: int, change: Callable[[int], None]) -> Check:
    def check(text: str) -> Callable[[], None]:
        value = parse_i64(text.encode())
        if value is None:
            raise BadValueError("argument couldn't be parsed into an integer")
        _check_bounds(value, least, most)
        return lambda: change(value)

    return check


def clients_allowed(least: int, most: int, change: Callable[[int], None]) -> Check:
    """A number of clients that this process may have open files for."""
    check_number = _number(least, most, change)

    def check(text: str) -> Callable[[], None]:
        go_ahead = check_number(text)
        allowed = allow_clients(int(text))
        if allowed < int(text):
            raise BadValueError(
                "The operating system is not able to handle the specified number of clients, "
                f"try with {allowed}"
            )
        return go_ahead

    return check


def memory(least: int, most: int, change: Callable[[int], None]) -> Check:
    def check(text: str) -> Callable[[], None]:
        value = parse_memory(text)
        if value is None:
            raise BadValueError("argument must be a memory value")
        _check_bounds(value, least, most)
        return lambda: change(value)

    return check


def _check_bounds(value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise BadValueError(f"argument must be between {least} and {most} inclusive")


def number_parameter(
    get: Callable[[], int],
    change: Callable[[int], None],
    setting: str,
    check: Callable[[int, int, Callable[[int], None]], Check] = _number,
    *,
    least: int = 0,
    most: int = I64_MAX,
) -> Parameter:
    return Parameter(lambda: str(get()), check(least, most, change), setting, get)


def output_limits(get: Callable[[], OutputLimits], change: Callable[[OutputLimits], None]) -> Check:
    """``<class> <hard> <soft> <seconds> …``; classes that are not named stay as they are."""

    def check(text: str) -> Callable[[], None]:
        try:
            limits = get().changed(text)
        except OutputLimitError as error:
            raise BadValueError(str(error)) from None
        return lambda: change(limits)

    return check


def memory_bound(change: Callable[[MemoryBound], None]) -> Check:
    """Bytes, or a percentage of ``maxmemory``."""

    def check(text: str) -> Callable[[], None]:
        bound = parse_bound(text)
        if bound is None:
            raise BadValueError("argument must be a memory or percent value")
        most = PERCENT_MAX if bound.is_percent else I64_MAX
        _check_bounds(bound.amount, 0, most)
        return lambda: change(bound)

    return check
