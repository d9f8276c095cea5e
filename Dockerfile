# The image of gpuslice: the programs, what they import, a Python and nothing else. docs/build.md
# tells how it is built and why it is made this way.
#
# BASE is any Debian, or image made of one, with Python 3.11 or newer, its venv module and
# ca-certificates. It is where the parts are taken from; nothing else of it is in the image.
ARG BASE
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1980-01-01T00:00:00Z

# What builds, none of which is in the image. pip's settings (an index of one's own, a proxy, a
# certificate) come as secrets, so that they leave no trace.
FROM ${BASE} AS tools
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
COPY requirements/build.txt /build/
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca.crt,target=/run/secrets/ca.crt \
    python3 -m venv /tools && \
    /tools/bin/pip install --no-compile --only-binary :all: --require-hashes -r /build/build.txt

# What the programs import, each file as its hash says, and no installer beside it.
FROM tools AS packages
COPY requirements/image.txt /build/
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca.crt,target=/run/secrets/ca.crt \
    python3 -m venv --without-pip /opt/gpuslice && \
    /tools/bin/pip --python /opt/gpuslice/bin/python install --no-compile \
      --only-binary :all: --require-hashes -r /build/image.txt
COPY image/__init__.py image/trim.py /build/image/
RUN cd /build && python3 -m image.trim /opt/gpuslice

# The interpreter with its libraries, and the certificates of public authorities.
FROM packages AS root
COPY image/rootfs.py /build/image/
RUN cd /build && python3 -m image.rootfs --venv /opt/gpuslice --root /rootfs

# The project itself: a wheel, made as for anybody, in folders of their own for a layer of its own.
FROM packages AS project
COPY . /source
RUN cd /source && \
    /tools/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels . && \
    /tools/bin/pip --python /opt/gpuslice/bin/python install --no-compile --no-deps --no-index \
      --find-links /wheels --prefix /project/opt/gpuslice gpuslice && \
    python3 -m image.trim /project/opt/gpuslice

# What is in the image, told from what is there.
FROM root AS inventory
COPY --from=project /project/opt/gpuslice /opt/gpuslice
COPY image/sbom.py /build/image/
COPY pyproject.toml /build/
RUN cd /build && \
    /tools/bin/python -m image.sbom --python /opt/gpuslice/bin/python --root /rootfs \
      --pyproject pyproject.toml --output /inventory/usr/share/gpuslice/sbom.cdx.json

FROM scratch AS gpuslice
COPY --from=root /rootfs/ /
COPY --from=packages /opt/gpuslice /opt/gpuslice
COPY --from=project /project/ /
COPY --from=inventory /inventory/ /
ENV PATH=/opt/gpuslice/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 65532:65532
ENTRYPOINT ["gpuslice"]
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="gpuslice" \
      org.opencontainers.image.description="Shares of NVIDIA GPUs for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
