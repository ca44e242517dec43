# The image of every process of an installation: `tenantry serve`, `tenantry gateway` and `tenantry tier publish`.
# docs/how-to/install.md tells how to build it and where it goes.

# By tag: pin it by digest in your registry's mirror, as `image` of the site pins what comes out of this.
ARG PYTHON=python:3.13-slim-bookworm

FROM ${PYTHON} AS built
# The gateway's hot modules are compiled; the image that runs has no compiler.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
RUN python -m venv /opt/tenantry
# Only what the wheel is made of, so that no other change makes it anew.
COPY pyproject.toml hatch_build.py README.md LICENSE versions.yaml ./
COPY provisioner ./provisioner
COPY templates ./templates
COPY applications ./applications
COPY policies ./policies
# By its name, since the name of a wheel of plain Python is another.
RUN /opt/tenantry/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheel . \
 && /opt/tenantry/bin/pip install --no-cache-dir --no-compile "$(echo /wheel/tenantry-*-cp3*.whl)[postgresql,router]" \
 && /opt/tenantry/bin/python -m compileall -q /opt/tenantry/lib

FROM ${PYTHON}
# git writes to the delivery repository, over HTTPS or SSH; the public authorities are for customers' URLs.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git openssh-client \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin tenantry
COPY --from=built /opt/tenantry /opt/tenantry
# The root file system is read-only where this runs: state and temporary files have folders of their own.
ENV PATH=/opt/tenantry/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
ENTRYPOINT ["tenantry"]
CMD ["serve"]
