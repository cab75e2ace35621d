#!/usr/bin/env bash
# Builds OpenTelemetry's collector into the file given (default: target/collector/collector). go.mod pins what is built;
# nothing is fetched but Go modules, each checked against go.sum. Two and a half minutes of one core the first time;
# nothing is built again before the pins change.
set -euo pipefail
cd "$(dirname "$0")"
binary=${1:-../../target/collector/collector}
mkdir -p "$(dirname "$binary")"
binary=$(cd "$(dirname "$binary")" && pwd)/$(basename "$binary")

command -v go >/dev/null || { echo "no Go here: install Go 1.26 or newer to run the test with a collector" >&2; exit 3; }

wanted=$(cat main.go go.mod go.sum build.sh | sha256sum; go env GOVERSION GOARCH)
if [[ -x "$binary" && -f "$binary.stamp" && "$(cat "$binary.stamp")" == "$wanted" ]]; then exit 0; fi
echo "building OpenTelemetry's collector"
# No cgo: nothing of this machine gets in. Without inlining and debug information it is built sooner.
CGO_ENABLED=0 GOFLAGS='' go build -trimpath -buildvcs=false -mod=readonly \
    -gcflags "all=-l -dwarf=false" -gcflags "std=-dwarf=false" -ldflags "-s -w" -o "$binary.new" .
mv "$binary.new" "$binary"
printf '%s' "$wanted" >"$binary.stamp"
