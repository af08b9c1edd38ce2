# A node: compiled, without a compiler, pip or a shell's worth of tools that it does not need.
#
#   docker build --tag crdtstream .
#   docker build --tag crdtstream --build-arg EXTRAS=[query] .     for nodes from which Spark reads
#
# deploy/README.md ("Containers") runs three of them.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
ARG EXTRAS=""
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# An environment without pip, filled by the pip of the image.
RUN python -m venv --without-pip /opt/crdtstream \
    && python -m pip --python /opt/crdtstream/bin/python install --no-cache-dir ".${EXTRAS}" \
    && find /opt/crdtstream -name '*.so' -exec strip --strip-unneeded '{}' +

FROM python:${PYTHON}
COPY --from=build /opt/crdtstream /opt/crdtstream
COPY deploy/docker/region.toml /etc/crdtstream/region.toml
COPY deploy/docker/healthcheck.py /opt/crdtstream/healthcheck.py
RUN groupadd --system --gid 10001 crdtstream \
    && useradd --system --uid 10001 --gid crdtstream --home-dir /data --shell /usr/sbin/nologin crdtstream \
    && install --directory --owner crdtstream --group crdtstream --mode 0700 /data
ENV PATH=/opt/crdtstream/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
VOLUME /data
# Redis clients; regions and operators; health and metrics.
EXPOSE 6380 7380 8380
STOPSIGNAL SIGTERM
# The event loop turns.  A region that refuses writes is healthy: a restart would not help it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python", "-I", "-S", "/opt/crdtstream/healthcheck.py"]
ENTRYPOINT ["crdtstream"]
CMD ["node", "--config", "/etc/crdtstream/region.toml"]
