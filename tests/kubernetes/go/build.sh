#!/usr/bin/env bash
# Builds Kubernetes, etcd, Cluster API and Helm into the folder given (default: target/kubernetes/bin). go.mod pins what
# is built; nothing is fetched but Go modules, each checked against go.sum. Some five minutes on two cores the first
# time; nothing is built again before the pins change.
set -euo pipefail
cd "$(dirname "$0")"
binaries=$(mkdir -p "${1:-../../../target/kubernetes/bin}" && cd "${1:-../../../target/kubernetes/bin}" && pwd)

command -v go >/dev/null || { echo "no Go here: install Go 1.26 or newer to run the Kubernetes tests" >&2; exit 3; }

# build PACKAGE BINARY [LDFLAGS]: one program, unless it is there already.
build() {
    local package=$1 binary=$2 flags=${3:-}
    local stamp wanted
    stamp="$binaries/.$binary.stamp"
    # Without inlining and debug information they are built in two thirds of the time. Inlined is what runs all the time:
    # Go's own library, and what an API server and etcd do with each request. Kinds of objects are most of the code.
    local compiled=(-gcflags "all=-l -dwarf=false") inlined
    for inlined in std k8s.io/apimachinery/... k8s.io/apiserver/... k8s.io/kube-openapi/... sigs.k8s.io/json/... \
        sigs.k8s.io/structured-merge-diff/... github.com/google/cel-go/... go.etcd.io/... go.uber.org/... \
        google.golang.org/grpc/... google.golang.org/protobuf/... golang.org/x/net/...; do
        compiled+=(-gcflags "$inlined=-dwarf=false")
    done
    wanted=$(cat go.mod go.sum | sha256sum; go env GOVERSION GOARCH; echo "${compiled[*]} $flags")
    if [[ -x "$binaries/$binary" && -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then return; fi
    echo "building $binary ($package)"
    # No cgo: nothing of this machine gets in.
    CGO_ENABLED=0 GOFLAGS='' go build -trimpath -buildvcs=false -mod=readonly \
        "${compiled[@]}" -ldflags "-s -w $flags" -o "$binaries/$binary.new" "$package"
    mv "$binaries/$binary.new" "$binaries/$binary"
    printf '%s' "$wanted" >"$stamp"
}

# Kubernetes learns its version from the linker; without, Cluster API refuses the server as too old.
version=$(go list -m -f '{{ .Version }}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${version#v}"
of=k8s.io/component-base/version
set_version="-X $of.gitVersion=$version -X $of.gitMajor=$major -X $of.gitMinor=$minor"

build go.etcd.io/etcd/server/v3 etcd
build k8s.io/kubernetes/cmd/kube-apiserver kube-apiserver "$set_version"
build k8s.io/kubernetes/cmd/kubectl kubectl "$set_version"
build sigs.k8s.io/cluster-api cluster-api
build sigs.k8s.io/cluster-api/bootstrap/kubeadm kubeadm-bootstrap
build sigs.k8s.io/cluster-api/controlplane/kubeadm kubeadm-control-plane
build sigs.k8s.io/cluster-api/cmd/clusterctl clusterctl
build k8s.io/kubernetes/cmd/kube-controller-manager kube-controller-manager "$set_version"
build helm.sh/helm/v4/cmd/helm helm

# Cluster API's manifests belong to its module: kept beside the programs, for the tests to apply and to publish.
source=$(go list -m -f '{{ .Dir }}' sigs.k8s.io/cluster-api)
for pair in cluster-api:. kubeadm-bootstrap:bootstrap/kubeadm kubeadm-control-plane:controlplane/kubeadm; do
    folder="$binaries/${pair%%:*}-config"
    rm -rf "$folder.new"
    cp -r "$source/${pair#*:}/config" "$folder.new"
    cp "$source/metadata.yaml" "$folder.new/metadata.yaml"
    go list -m -f '{{ .Version }}' sigs.k8s.io/cluster-api >"$folder.new/version"
    chmod -R u+w "$folder.new"
    rm -rf "$folder"
    mv "$folder.new" "$folder"
done
