"""A server that answers LanceDB's client as LanceDB Cloud does, from tables in a folder."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import lancedb
import pyarrow as pa
from lancedb.index import FTS, Bitmap, BTree
from lancedb.query import MatchQuery

KEY = "sk_sea"

_TYPES = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint32(): "uint32",
    pa.float16(): "halffloat",
    pa.float32(): "float",
    pa.float64(): "double",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # so that an answer is sent at once
    database: lancedb.DBConnection

    def log_message(self, *_: object) -> None: ...

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        _, _, name, *action = url.path.strip("/").split("/")
        given = self._body()
        if self.headers["x-api-key"] != KEY:
            return self._answer(401, b"unauthorized")
        is_unknown = action != ["create"] and name not in self.database.list_tables().tables
        if is_unknown or action[-1] == "stats":
            return self._answer(404, f"table {name} not found".encode())
        try:
            result = getattr(self, "_".join(action))(name, given, parse_qs(url.query))
        except Exception as error:
            return self._answer(400, str(error).encode())
        return self._answer(200, result)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def create(self, name: str, given: bytes, _: object) -> bytes:
        self.database.create_table(name, pa.ipc.open_stream(given).read_all())
        return b"{}"

    def describe(self, name: str, *_: object) -> bytes:
        table = self.database.open_table(name)
        fields = [_field(field) for field in table.schema]
        return json.dumps({"version": table.version, "schema": {"fields": fields}}).encode()

    def query(self, name: str, given: bytes, _: object) -> bytes:
        asked = json.loads(given)
        table = self.database.open_table(name)
        if text := asked.get("full_text_query"):
            query = table.search(MatchQuery(text["query"], *text["columns"]), query_type="fts")
        elif asked["vector"]:
            query = table.search(asked["vector"], vector_column_name=asked["vector_column"])
            query = query.distance_type(asked["distance_type"]).nprobes(asked["nprobes"])
            query = query.refine_factor(asked["refine_factor"])
        else:
            query = table.search()
        if "filter" in asked:
            query = query.where(asked["filter"], prefilter=asked["prefilter"])
        rows = query.select(asked["columns"]).limit(min(asked["k"], 2**31)).to_arrow()
        output = BytesIO()
        with pa.ipc.new_file(output, rows.schema) as file:
            file.write_table(rows)
        return output.getvalue()

    def insert(self, name: str, given: bytes, _: object) -> bytes:
        self.database.open_table(name).add(pa.ipc.open_stream(given).read_all())
        return b'{"version": 1}'

    def merge_insert(self, name: str, given: bytes, options: dict[str, list[str]]) -> bytes:
        rows = pa.ipc.open_stream(given).read_all()
        merge = self.database.open_table(name).merge_insert(options["on"][0])
        merge.when_matched_update_all().when_not_matched_insert_all().execute(
            rows, on_bad_vectors="null"
        )
        return b'{"version": 1}'

    def delete(self, name: str, given: bytes, _: object) -> bytes:
        self.database.open_table(name).delete(json.loads(given)["predicate"])
        return b'{"version": 1}'

    def create_index(self, name: str, given: bytes, _: object) -> bytes:
        asked = json.loads(given)
        column, kind = asked["column"], {"BTREE": BTree, "BITMAP": Bitmap, "FTS": FTS}
        config = kind[asked["index_type"]]()
        for option in {field.name for field in fields(config)} & asked.keys():
            setattr(config, option, asked[option])
        self.database.open_table(name).create_index(column, config=config)
        return b"{}"

    def index_list(self, name: str, *_: object) -> bytes:
        listed = self.database.open_table(name).list_indices()
        indexes = [
            {"index_name": one.name, "index_uuid": "", "columns": one.columns, "status": "done"}
            for one in listed
        ]
        return json.dumps({"indexes": indexes}).encode()


def _field(field: pa.Field) -> dict[str, object]:
    return {"name": field.name, "nullable": field.nullable, "type": _type(field.type)}


def _type(of_field: pa.DataType) -> dict[str, object]:
    if pa.types.is_timestamp(of_field):
        return {"type": f"timestamp:{of_field.unit}:{of_field.tz}"}
    if pa.types.is_fixed_size_list(of_field):
        item = _field(of_field.value_field)
        return {"type": "fixed_size_list", "length": of_field.list_size, "fields": [item]}
    if pa.types.is_list(of_field):
        return {"type": "list", "fields": [_field(of_field.value_field)]}
    return {"type": _TYPES[of_field]}


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the tables in a folder, and return the address."""
    handler = type("Handler", (_Handler,), {"database": lancedb.connect(folder)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
