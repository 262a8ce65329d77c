# The service with the reader's page, on CPUs. See docs/howto/container.md.
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
# The default torch has 5 GB of CUDA.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "torch>=2.9"
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)[index,office]" \
    && install --directory --owner=1000 /library
USER 1000
VOLUME /library
ENV HOME=/tmp
EXPOSE 8321
HEALTHCHECK --start-period=60s CMD ["python", "-c", \
    "from urllib.request import urlopen; urlopen('http://127.0.0.1:8321/healthz', timeout=5)"]
ENTRYPOINT ["foveate"]
CMD ["serve", "--host", "0.0.0.0"]
