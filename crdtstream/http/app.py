"""All pages of the HTTP port; each module of this package has some, and gives them as routes."""

from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.routing import Route

from crdtstream.http import bdbs, health, metrics
from crdtstream.http.answers import AskedWrongError, asked_wrong, not_allowed, not_found
from crdtstream.http.parts import HttpParts

# One for each module with pages.
PAGES: Final[tuple[Callable[[HttpParts], list[Route]], ...]] = (
    health.routes,
    bdbs.routes,
    metrics.routes,
)


def make_app(parts: HttpParts) -> Starlette:
    """The pages of one node."""
    return Starlette(
        routes=[route for routes in PAGES for route in routes(parts)],
        exception_handlers={
            AskedWrongError: asked_wrong,
            404: not_found,
            405: not_allowed,
        },
    )
