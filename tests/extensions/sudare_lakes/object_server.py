"""A local server that speaks S3, and fails when it is told to: before a request is served, or after, unanswered."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class ObjectServer:
    def __init__(self) -> None:
        self._inner: Wsgi = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._lock = threading.Lock()
        self.heal()
        self.client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self._server.port}",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        self._buckets = 0

    def bucket(self) -> str:
        """Make a bucket and return its address as a spec writes it."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        self.client.create_bucket(Bucket=name)
        return f"s3+http://localhost:{self._server.port}/{name}"

    def put(self, address: str, content: bytes) -> None:
        bucket, _, key = address.split("/", 3)[3].partition("/")
        self.client.put_object(Bucket=bucket, Key=key, Body=content)

    def delete(self, address: str) -> None:
        bucket, _, key = address.split("/", 3)[3].partition("/")
        self.client.delete_object(Bucket=bucket, Key=key)

    def keys(self, address: str) -> list[str]:
        found = self.client.list_objects_v2(Bucket=address.split("/")[3])
        return [each["Key"] for each in found.get("Contents", ())]

    def heal(self) -> None:
        """Serve everything from now on, and count anew."""
        self.requests: list[tuple[str, str]] = []
        self.fails: Callable[[int], str | None] = lambda number: None

    def close(self) -> None:
        self._server.shutdown()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
            number = len(self.requests)
        how = self.fails(number)
        if how is None:
            return self._inner(environ, start)
        if how == "after":
            list(self._inner(environ, lambda *_: None))
        elif length := int(environ.get("CONTENT_LENGTH") or 0):
            environ["wsgi.input"].read(length)
        start("503 Service Unavailable", [("Content-Type", "text/plain"), ("Connection", "close")])
        return [b""]
