#!/usr/bin/env bash
# Builds Kubernetes, etcd, Cluster API and Helm, as released, into the folder given (default: target/kubernetes/bin).
# Each module pins what it builds; nothing is fetched but Go modules, each checked against its go.sum.
# Some five minutes on two cores the first time; a module whose pins have not changed is not built again.
set -euo pipefail
cd "$(dirname "$0")"
binaries=$(mkdir -p "${1:-../../../target/kubernetes/bin}" && cd "${1:-../../../target/kubernetes/bin}" && pwd)

command -v go >/dev/null || { echo "no Go here: install Go 1.26 or newer to run the Kubernetes tests" >&2; exit 3; }

# build MODULE PACKAGE BINARY [LDFLAGS]: one program of one module, unless it is there already.
build() {
    local module=$1 package=$2 binary=$3 flags=${4:-}
    local stamp wanted
    stamp="$binaries/.$binary.stamp"
    # Without inlining they are built in three quarters of the time, and a test does not feel it.
    local compiled=all=-l
    wanted=$(cat "$module/go.mod" "$module/go.sum" | sha256sum; go env GOVERSION GOARCH; echo "$compiled $flags")
    if [[ -x "$binaries/$binary" && -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then return; fi
    echo "building $binary ($package)"
    # No cgo: nothing of this machine gets in.
    (cd "$module" && CGO_ENABLED=0 GOFLAGS='' go build -trimpath -buildvcs=false -mod=readonly \
        -gcflags "$compiled" -ldflags "-s -w $flags" -o "$binaries/$binary.new" "$package")
    mv "$binaries/$binary.new" "$binaries/$binary"
    printf '%s' "$wanted" >"$stamp"
}

# Kubernetes learns its version from the linker; without, Cluster API refuses the server as too old.
version=$(cd kubernetes && go list -m -f '{{ .Version }}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${version#v}"
of=k8s.io/component-base/version
set_version="-X $of.gitVersion=$version -X $of.gitMajor=$major -X $of.gitMinor=$minor"

build etcd go.etcd.io/etcd/server/v3 etcd
build kubernetes k8s.io/kubernetes/cmd/kube-apiserver kube-apiserver "$set_version"
build kubernetes k8s.io/kubernetes/cmd/kubectl kubectl "$set_version"
build cluster-api sigs.k8s.io/cluster-api cluster-api
build cluster-api sigs.k8s.io/cluster-api/cmd/clusterctl clusterctl
build kubernetes k8s.io/kubernetes/cmd/kube-controller-manager kube-controller-manager "$set_version"
build helm helm.sh/helm/v4/cmd/helm helm

# Cluster API's manifests belong to its module: kept beside the programs, for the tests to apply and to publish.
source=$(cd cluster-api && go list -m -f '{{ .Dir }}' sigs.k8s.io/cluster-api)
rm -rf "$binaries/cluster-api-config.new"
cp -r "$source/config" "$binaries/cluster-api-config.new"
cp "$source/metadata.yaml" "$binaries/cluster-api-config.new/metadata.yaml"
(cd cluster-api && go list -m -f '{{ .Version }}' sigs.k8s.io/cluster-api) >"$binaries/cluster-api-config.new/version"
chmod -R u+w "$binaries/cluster-api-config.new"
rm -rf "$binaries/cluster-api-config"
mv "$binaries/cluster-api-config.new" "$binaries/cluster-api-config"
