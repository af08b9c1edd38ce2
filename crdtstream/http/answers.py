"""Answers of all pages, and reading of their parameters."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

# More parameters than any page has, and longer than any of them needs.
QUERY_BYTES_MAX: Final = 1_024
NUMBER_MAX: Final = (1 << 31) - 1
NUMBER_DIGITS_MAX: Final = 10


class AskedWrongError(Exception):
    """The request cannot be answered as it was asked; the text says what is wrong."""


def refusal(status: int, error_code: str, description: str) -> JSONResponse:
    """An error, in the words of Redis Enterprise's REST API."""
    return JSONResponse({"error_code": error_code, "description": description}, status_code=status)


def parameters(request: Request, *names: str) -> dict[str, str]:
    """The query parameters of a request.

    Raises:
        AskedWrongError: one that the page does not have, or one that is there twice.
    """
    if len(request.url.query) > QUERY_BYTES_MAX:
        raise AskedWrongError(f"the query is longer than {QUERY_BYTES_MAX} bytes")
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in names:
            known = " and ".join(names) or "none"
            raise AskedWrongError(f"there is no parameter {name!r}; this page has {known}")
        if name in found:
            raise AskedWrongError(f"{name} is given twice")
        found[name] = value
    return found


def number(name: str, text: str) -> int:
    """A number of a path or a query.

    Raises:
        AskedWrongError: it is none, or too large.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
    if not is_number or int(text) > NUMBER_MAX:
        raise AskedWrongError(f"{name} must be a whole number from 0 to {NUMBER_MAX}")
    return int(text)


async def asked_wrong(_request: Request, error: Exception) -> Response:
    return refusal(400, "invalid_schema", str(error))


async def not_found(request: Request, _error: Exception) -> Response:
    return refusal(404, "not_found", f"there is no page {request.url.path[:QUERY_BYTES_MAX]}")


async def not_allowed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = refusal(
        405,
        "method_not_allowed",
        "only GET and HEAD are served here; `crdtstream crdb --help` has the commands that change"
        " a database",
    )
    answer.headers.update(error.headers or {})
    return answer
