"""The queries of docs/telemetry.md in ClickHouse itself, over what the program exports.

ClickHouse runs in this process (chdb). Its table is made by the statement of the collector's ClickHouse exporter, as
the module that go.mod pins holds it. The exporter itself needs a server and is not run: `rows` fills the columns as its
pushLogsData does.
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading

import pytest
from chdb.session import Session
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

HERE = pathlib.Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "telemetry.md").read_text()
WINDLASS = os.environ["WINDLASS_COMMAND_LINE"]
KEY = "11111111-1111-1111-1111-111111111111"
DAY = 86_400 * 10**9


def query_of_the_page():
    [query] = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return query


def statement():
    """The exporter's statement for its table, filled in as for a server that is as new as this ClickHouse."""
    if shutil.which("go") is None:
        pytest.skip("the table of the ClickHouse exporter comes with its Go module: https://go.dev/dl")
    download = ["go", "mod", "download", "-json"]
    done = subprocess.run(download, cwd=HERE, env={**os.environ, "GOFLAGS": ""}, capture_output=True, text=True)
    if done.returncode != 0:
        assert "checksum mismatch" not in done.stderr, done.stderr
        pytest.skip(f"the Go module of the ClickHouse exporter cannot be had: {json.loads(done.stdout)['Error']}")
    template = pathlib.Path(json.loads(done.stdout)["Dir"]) / "internal" / "sqltemplates" / "logs_table.sql"
    # {{- if .HasFullTextSearch}} since ClickHouse 26.2 {{- else}} before {{- end}}
    choice = re.compile(r"\{\{-? if \.HasFullTextSearch\}\}(.*?)\{\{-? else\}\}.*?\{\{-? end\}\}", re.DOTALL)
    text = choice.sub(lambda found: found[1], template.read_text())
    filled = {"ident .Database": "default", "ident .TableName": "otel_logs", ".ClusterString": "", ".TTL": ""}
    for name, value in {**filled, ".Engine": "MergeTree()"}.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    assert "{{" not in text, text
    return text


@pytest.fixture
def clickhouse(tmp_path):
    session = Session(str(tmp_path / "clickhouse"))
    session.query(statement())
    yield session
    session.close()


@pytest.fixture
def collector():
    """Takes what is sent to it. Its log records, with their resources, are in `received`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/logs":
                server.received += ExportLogsServiceRequest.FromString(body).resource_logs
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.received = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class World:
    """A user with a simulated account, whose commands export what they do."""

    def __init__(self, home, collector):
        self.home = home
        command = [WINDLASS, "simulator", "--listen", "127.0.0.1:0", "--time-scale", "100", "--quiet"]
        self.simulator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.environment())
        self.url = self.simulator.stdout.readline().strip()
        self.endpoint = f"http://127.0.0.1:{collector.server_port}"

    def environment(self, **more):
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], **more}

    def run(self, *arguments, exports=True):
        account = {"SCW_SECRET_KEY": KEY, "SCW_DEFAULT_PROJECT_ID": KEY, "SCW_DEFAULT_ZONE": "fr-par-1"}
        environment = self.environment(SCW_API_URL=self.url, **account)
        if exports:
            environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = self.endpoint
        command = [WINDLASS, *arguments, "--output", "json"]
        done = subprocess.run(command, env=environment, cwd=self.home, capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def end(self):
        self.simulator.kill()
        self.simulator.wait()


@pytest.fixture
def world(tmp_path, collector):
    home = tmp_path / "home"
    (home / ".config" / "windlass").mkdir(parents=True)
    world = World(home, collector)
    yield world
    world.end()


def text(value):
    kind = value.WhichOneof("value")
    return "" if kind is None else str(getattr(value, kind))


def attributes(of):
    return {attribute.key: text(attribute.value) for attribute in of}


def rows(received):
    for of_resource in received:
        resource = attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_logs:
            for record in of_scope.log_records:
                yield {
                    "Timestamp": record.time_unix_nano or record.observed_time_unix_nano,
                    "TraceId": record.trace_id.hex(),
                    "SpanId": record.span_id.hex(),
                    "TraceFlags": record.flags & 0xFF,
                    "SeverityText": record.severity_text,
                    "SeverityNumber": record.severity_number,
                    "ServiceName": resource.get("service.name", ""),
                    "Body": text(record.body),
                    "ResourceSchemaUrl": of_resource.schema_url,
                    "ResourceAttributes": resource,
                    "ScopeSchemaUrl": of_scope.schema_url,
                    "ScopeName": of_scope.scope.name,
                    "ScopeVersion": of_scope.scope.version,
                    "ScopeAttributes": attributes(of_scope.scope.attributes),
                    "LogAttributes": attributes(record.attributes),
                    "EventName": record.event_name,
                }


def insert(clickhouse, rows):
    def written(row):
        seconds, nanoseconds = divmod(row["Timestamp"], 10**9)
        return json.dumps({**row, "Timestamp": f"{seconds}.{nanoseconds:09}"})

    clickhouse.query("INSERT INTO otel_logs FORMAT JSONEachRow " + "\n".join(map(written, rows)))


def asked(clickhouse, query):
    return [json.loads(line) for line in clickhouse.query(query, "JSONEachRow").data().splitlines() if line]


def test_the_query_says_which_policy_deleted_what_in_the_last_week(clickhouse, collector, world):
    rules = "slot = 'release'\n[[rules]]\nname = 'old'\nwhen = 'true'\nanswer = 'terminate'\nreason = 'it is old'\n"
    (world.home / "old.rules.toml").write_text(rules)
    configuration = f"[policies.release]\npath = '{world.home}/old.rules.toml'\n"
    (world.home / ".config" / "windlass" / "config.toml").write_text(configuration)
    create = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"]
    [server] = world.run(*create)["servers"]
    world.run("server", "delete", server["id"], "--yes")
    [decision] = world.run("decision", "list", "--slot", "release", exports=False)["decisions"]

    exported = list(rows(collector.received))
    insert(clickhouse, exported)
    # What happened before is another week's.
    insert(clickhouse, [{**row, "Timestamp": row["Timestamp"] - 8 * DAY} for row in exported])
    [found] = asked(clickhouse, query_of_the_page())
    assert found.pop("Timestamp")
    assert found.pop("policy").startswith("old.rules.toml (")
    expected = {"subject": decision["subject"], "machine": server["id"], "zone": "fr-par-1", "reason": "it is old"}
    assert found == expected
    # What came of it is in the same trace.
    of_release = "LogAttributes['windlass.decision.slot'] = 'release'"
    same_trace = f"EventName = 'windlass.operation' AND TraceId IN (SELECT TraceId FROM otel_logs WHERE {of_release})"
    states = f"SELECT DISTINCT LogAttributes['windlass.operation.state'] AS state FROM otel_logs WHERE {same_trace}"
    assert asked(clickhouse, states) == [{"state": "done"}]
    assert len(exported) > 4, "there is more than what the query finds"


def test_the_query_finds_the_look_at_which_a_stopped_server_was_removed(clickhouse, collector, world):
    world.run("demo", "--pace", "10")
    insert(clickhouse, rows(collector.received))
    [found] = asked(clickhouse, query_of_the_page())
    assert re.fullmatch(r"grace-for-stopped \S+ \(\w+\)", found["policy"]), found
    assert found["subject"].endswith(" servers in fr-par-1") and found["zone"] == "fr-par-1", found
