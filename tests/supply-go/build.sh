#!/usr/bin/env bash
# Builds sigstore's cosign and a registry of CNCF's distribution, as released, into the folder given (default:
# target/supply/bin). Each module pins what it builds; nothing is fetched but Go modules, each checked against its
# go.sum. Some five minutes of one core the first time; a module whose pins have not changed is not built again.
set -euo pipefail
cd "$(dirname "$0")"
binaries=$(mkdir -p "${1:-../../target/supply/bin}" && cd "${1:-../../target/supply/bin}" && pwd)

command -v go >/dev/null || {
    echo "no Go here: install Go 1.26 or newer to run the tests with cosign and distribution" >&2
    exit 3
}

# build MODULE PACKAGE BINARY: one program of one module, unless it is there already.
build() {
    local module=$1 package=$2 binary=$3
    local stamp wanted
    stamp="$binaries/.$binary.stamp"
    wanted=$(cat "$module"/* | sha256sum; go env GOVERSION GOARCH)
    if [[ -x "$binaries/$binary" && -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then return; fi
    echo "building $binary ($package)"
    # No cgo: nothing of this machine gets in.
    (cd "$module" && CGO_ENABLED=0 GOFLAGS='' go build -trimpath -buildvcs=false -mod=readonly \
        -ldflags "-s -w" -o "$binaries/$binary.new" "$package")
    mv "$binaries/$binary.new" "$binaries/$binary"
    printf '%s' "$wanted" >"$stamp"
}

build distribution . distribution
build cosign github.com/sigstore/cosign/v3/cmd/cosign cosign
