"""All pages of the HTTP port; each module of this package has some, and returns them as routes."""

from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from crdtstream.http import bdbs, console, crdbs, health, metrics
from crdtstream.http.answers import AskedWrongError, asked_wrong, not_allowed, not_found
from crdtstream.http.bodies import BodyBound
from crdtstream.http.guard import PageGuard
from crdtstream.http.page_sources import PageSources
from crdtstream.http.targets import PlainTargets

# One for each module with pages.
PAGES: Final[tuple[Callable[[PageSources], list[Route]], ...]] = (
    health.routes,
    bdbs.routes,
    crdbs.routes,
    metrics.routes,
    console.routes,
)


def make_app(sources: PageSources) -> Starlette:
    """The pages of one node."""
    logins = sources.logins
    return Starlette(
        routes=[route for routes in PAGES for route in routes(sources)],
        middleware=[
            Middleware(PlainTargets),
            Middleware(BodyBound),
            *(
                []
                if logins is None
                else [
                    Middleware(
                        PageGuard,
                        logins,
                        metrics_name_keys=sources.settings.limits.metrics_names_max > 0,
                        has_console=sources.make_console is not None,
                    )
                ]
            ),
        ],
        exception_handlers={
            AskedWrongError: asked_wrong,
            404: not_found,
            405: not_allowed,
        },
    )
