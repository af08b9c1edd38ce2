"""``GET /metrics``: the figures of this node, for Prometheus; ``docs/metrics.md`` explains them."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from crdtstream.http.page_sources import PageSources
from crdtstream.metrics.page import CONTENT_TYPE


def routes(sources: PageSources) -> list[Route]:
    """This page, for one node."""

    async def metrics(_request: Request) -> Response:
        return Response(await sources.metrics_text(), headers={"content-type": CONTENT_TYPE})

    return [Route("/metrics", metrics, methods=["GET"])]
