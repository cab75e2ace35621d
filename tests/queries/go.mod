// The table of the collector's ClickHouse exporter, which stands in its module. Nothing of it is built.
module windlass.dev/tests/queries

go 1.26.0

require github.com/open-telemetry/opentelemetry-collector-contrib/exporter/clickhouseexporter v0.165.1
