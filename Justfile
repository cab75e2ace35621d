# Recipes are short: each is one or two real commands. `just` alone lists them.
set shell := ["bash", "-euo", "pipefail", "-c"]

target := env("CARGO_TARGET_DIR", justfile_directory() / "target")
python := target / "python/bin/python"
clients_python := target / "clients-python/bin/python"
clickhouse := target / "clickhouse/bin/python"
chart_files := "host/controller/deploy/helm/windlass-controller/files"
promtool := target / "prometheus/usr/bin/promtool"
mdbook := "0.5.4"
git_cliff := "2.14.2"
wkg := "0.16.1"
chdb := "26.5.0"
public := """
    windlass-contract windlass-process windlass-concurrency windlass-telemetry windlass-distribution windlass-ssh windlass-scaleway windlass-simulator
    windlass-policy windlass-lifecycle windlass-cluster windlass-proof windlass-guest-sdk windlass-guest-build windlass
"""

_default:
    @just --list --unsorted

# The whole story on the embedded simulator, about 15 s after the build. No account needed.
[group('start')]
demo *arguments:
    @test -x {{ target }}/debug/windlass || echo "Building the command line, most of it wasmtime," \
        "which runs policies: five to ten minutes from nothing on 2 cores (this machine has {{ num_cpus() }})," \
        "seconds from then on."
    cargo run --package windlass-cli --no-default-features -- demo {{ arguments }}

# Random work, faults and lost power from each seed: `just simulate --from 42 --seeds 1`.
[group('search')]
simulate *arguments:
    cargo run --quiet --profile simulation --package windlass-test-world --bin simulate -- {{ arguments }}

# Days of GitLab's own loop, by seed: `just days 200`, `just days 1 42` for one again. Needs Go.
[group('search')]
days count="20" from="1": _wasm_target
    cargo build --quiet --profile simulation --package windlass-test-world --bin runner-world
    cd tests/fleeting-go && WINDLASS_RUNNER_WORLD={{ target }}/simulation/runner-world \
        WINDLASS_DAYS={{ count }} WINDLASS_DAYS_FROM={{ from }} WINDLASS_DAYS_PROCESSES={{ num_cpus() }} \
        go test -timeout 0 -count=1 -run 'TestADay' ./...

# Schedules under which threads and tasks break a promise: `just interleavings suspension`.
[group('search')]
interleavings *arguments:
    CARGO_TARGET_DIR={{ target / "interleavings" }} RUSTFLAGS="--cfg windlass_interleavings" \
        cargo test --package windlass-concurrency --lib {{ arguments }}

# Breaks the code on purpose, and lets the search find it: all, or `left-is-done`.
[group('search')]
simulate-breakages *arguments:
    @tests/world/breakages/run {{ arguments }}

# Fresh seeds for everything that is searched: worlds, fuzz targets, days, weeks, schedules, properties, peers.
[group('search')]
search minutes="60": _wasm_target
    @tests/search {{ minutes }}

# Inputs that break what reads untrusted bytes: `just fuzz 600`, `just fuzz 60 journal`.
[group('search')]
fuzz seconds="60" target="": _wasm_target
    @tests/fuzz/run {{ seconds }} {{ target }}

# Peers that mean harm, by seed, against a living policy server: `just hostile-peers 60`, `just hostile-peers 1 31`.
[group('search')]
hostile-peers minutes="1" seed="": _wasm_target
    cargo build --quiet --workspace --bin windlass --bin hostile
    {{ target }}/debug/hostile peers --seconds $(({{ minutes }} * 60)) {{ if seed == "" { "" } else { "--seed " + seed } }}

# Policies that mean harm, by seed, in a living policy server: `just hostile-policies 60`, `just hostile-policies 1 31`.
[group('search')]
hostile-policies minutes="1" seed="": _wasm_target
    cargo build --quiet --workspace --bin windlass --bin hostile
    {{ target }}/debug/hostile policies --seconds $(({{ minutes }} * 60)) {{ if seed == "" { "" } else { "--seed " + seed } }}

# Changes that no test notices, an hour or two: `just mutants --file '**/ownership.rs'`.
[group('search')]
mutants *arguments: _wasm_target
    @command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants
    cargo mutants --output {{ target }} {{ arguments }} -- --lib || [ $? -lt 4 ]
    cargo mutants --output {{ target }} --iterate {{ arguments }}

# All tests, part by part, with a table at the end; or some parts: `just test rust fleeting`.
[group('start')]
test *parts: _wasm_target
    @tests/run {{ parts }}

# Builds all that the parts below run.
[group('test')]
test-build: _wasm_target
    cargo test --workspace --no-run

# Kubernetes, etcd, Cluster API and Helm, for the tests on a real API server.
[group('test')]
test-kubernetes-programs:
    @command -v go >/dev/null || \
        { echo "SKIPPED: a real API server is built with Go: https://go.dev/dl"; exit 0; }; \
    tests/kubernetes/go/build.sh

# The Rust tests alone, but for those on Kubernetes. Arguments go to `cargo test`.
[group('test')]
test-rust *arguments: _wasm_target _servers
    cargo test --workspace --exclude windlass-test-kubernetes --no-fail-fast {{ arguments }}

# Scaleway's own Python SDK against the simulator.
[group('test')]
test-scaleway-sdk: _programs _python
    @test -x {{ python }} || exit 0; {{ python }} -m pytest -q tests/scaleway-sdk-python

# GitLab's own fleeting code against the runner plugin. Arguments go to `go test`.
[group('test')]
test-fleeting *arguments: _programs
    @command -v go >/dev/null || \
        { echo "SKIPPED: GitLab's own code needs Go: https://go.dev/dl"; exit 0; }; \
    {{ target }}/debug/windlass-guest-build --out {{ target }}/policies \
        windlass-guest-state-mapping grace-for-stopped && \
    cd tests/fleeting-go && \
    WINDLASS_FLEETING_PLUGIN={{ target }}/debug/fleeting-plugin-scaleway \
    WINDLASS_GROUP_IN_MEMORY={{ target }}/debug/examples/group_in_memory \
    WINDLASS_COMMAND_LINE={{ target }}/debug/windlass \
    WINDLASS_SIMULATOR={{ target }}/debug/examples/serve \
    WINDLASS_RUNNER_WORLD={{ target }}/debug/runner-world \
    WINDLASS_POLICIES={{ target }}/policies \
    go test -timeout 60m -parallel 48 -count=1 {{ arguments }} ./...

# The Go module that asks `windlass policy serve`. Arguments go to `go test`.
[group('test')]
test-clients-go *arguments: _programs _compiled
    @command -v go >/dev/null || \
        { echo "SKIPPED: the clients in Go need Go: https://go.dev/dl"; exit 0; }; \
    for module in . generate examples/fleeting; do \
        (cd clients/go/$module && WINDLASS_COMMAND_LINE={{ target }}/debug/windlass \
            WINDLASS_COMPILED={{ target }}/compiled go test -timeout 20m -count=1 {{ arguments }} ./...) || exit; \
    done

# The Python package that asks `windlass policy serve`. Arguments go to pytest.
[group('test')]
test-clients-python *arguments: _programs _compiled _clients_python
    @test -x {{ clients_python }} || exit 0; \
    cd clients/python && WINDLASS_COMMAND_LINE={{ target }}/debug/windlass \
        WINDLASS_COMPILED={{ target }}/compiled {{ clients_python }} -m pytest -q -rs {{ arguments }}

# The npm package that asks `windlass policy serve`. Arguments go to `node --test`.
[group('test')]
test-clients-node *arguments: _programs _compiled _clients_node
    @command -v npm >/dev/null || exit 0; \
    cd clients/node && node_modules/.bin/tsc && WINDLASS_COMMAND_LINE={{ target }}/debug/windlass \
        WINDLASS_COMPILED={{ target }}/compiled node --test --test-timeout=1800000 --test-reporter=../../tests/browser/reporter.mjs {{ arguments }} test/*.test.mjs

# Alerts and dashboards, by Prometheus' own promtool.
[group('test')]
test-alerts: _promtool
    @promtool=$(command -v promtool || echo {{ promtool }}); \
    test -x "$promtool" || \
        { echo "SKIPPED: alerts are tested with promtool: https://prometheus.io/download"; exit 0; }; \
    "$promtool" check rules deploy/gitlab-runner/alerts.yaml {{ chart_files }}/alerts.yaml && \
    "$promtool" test rules deploy/gitlab-runner/alerts.test.yaml {{ chart_files }}/alerts.test.yaml && \
    python3 tests/dashboards.py docs/grafana/gitlab-runner.json {{ chart_files }}/dashboard.json \
        > {{ target }}/dashboards.yaml && \
    "$promtool" check rules {{ target }}/dashboards.yaml

# The workflows of GitHub, by zizmor; and that a fork moves the project's home with one command.
[group('test')]
test-workflows: _python
    @test -x {{ python }} || exit 0; {{ target }}/python/bin/zizmor --offline --no-progress --persona=auditor .github
    @test -x {{ python }} || exit 0; {{ python }} -m pytest -q tests/workflows

# go-plugin's protocol by a third implementation, in Python, against the runner plugin.
[group('test')]
test-rpcplugin: _programs _python
    @test -x {{ python }} || exit 0; \
    WINDLASS_FLEETING_PLUGIN={{ target }}/debug/fleeting-plugin-scaleway \
    WINDLASS_SIMULATOR={{ target }}/debug/examples/serve \
        {{ python }} -m pytest -q tests/rpcplugin-python

# What OpenTelemetry's own collector makes of our traces, logs and metrics.
[group('test')]
test-collector: _programs
    @command -v go >/dev/null || \
        { echo "SKIPPED: OpenTelemetry's collector is built with Go: https://go.dev/dl"; exit 0; }; \
    tests/collector/build.sh {{ target }}/collector/collector && \
    WINDLASS_COLLECTOR={{ target }}/collector/collector cargo test --workspace --test it -- opentelemetrys_own_collector

# The queries of docs/telemetry.md: in ClickHouse over what the program exports, and by the grammar of Loki's editor.
[group('test')]
test-queries *arguments: _programs _clickhouse
    @test -x {{ clickhouse }} || exit 0; \
    WINDLASS_COMMAND_LINE={{ target }}/debug/windlass {{ clickhouse }} -m pytest -q -rs tests/queries {{ arguments }}
    @command -v npm >/dev/null || \
        { echo "SKIPPED: LogQL's grammar needs Node.js 20: https://nodejs.org"; exit 0; }; \
    cd tests/queries && npm ci --silent --ignore-scripts --no-audit --no-fund && \
        node --test --test-reporter=../browser/reporter.mjs logql.test.mjs

# Policies in JavaScript, TypeScript and Python, from `policy new` to their decisions.
[group('test')]
test-scripts *arguments: _programs _python
    @test -x {{ python }} || exit 0; mkdir -p {{ target }}/scripts; \
    WINDLASS_COMMAND_LINE={{ target }}/debug/windlass WINDLASS_SCRIPTS={{ target }}/scripts \
        {{ python }} -m pytest -q -rs tests/scripts {{ arguments }}

# The Bytecode Alliance's own client of registries pulls what we push, and pushes what we use.
[group('test')]
test-wkg: _wasm_target
    @test -x {{ target }}/wkg/bin/wkg || CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR={{ target }}/wkg/target \
        cargo install --debug --locked wkg --version {{ wkg }} --root {{ target }}/wkg
    WINDLASS_WKG={{ target }}/wkg/bin/wkg cargo test --workspace --test it -- what_we_push_wkg_pulls

# The supply line with cosign's and CNCF's own programs, which take four minutes of one core to build.
[group('test')]
test-supply: _wasm_target
    tests/supply-go/build.sh "{{ target }}/supply/bin"
    WINDLASS_SUPPLY="{{ target }}/supply/bin" cargo test --workspace --test it -- cosign:: distribution::

# The same with a policy of each slot in each language: eight more components.
[group('test')]
test-scripts-of-every-slot:
    WINDLASS_SCRIPTS_EVERY_SLOT=1 {{ just_executable() }} test-scripts

# The controller on a real API server with Cluster API's core: `just test-kubernetes floor`.
[group('test')]
test-kubernetes *arguments: _programs _servers
    @command -v go >/dev/null || \
        { echo "SKIPPED: a real API server is built with Go: https://go.dev/dl"; exit 0; }; \
    tests/kubernetes/go/build.sh && \
    WINDLASS_KUBERNETES_REQUIRED=1 cargo test --workspace --test kubernetes -- --test-threads 12 {{ arguments }}

# OpenSSH's sshd stands in the place of a Mac's, and PostgreSQL keeps state for tests. Their packages would start servers
# of this machine's: they are kept from that.
_servers:
    #!/usr/bin/env bash
    set -u
    has_all() { [ -x /usr/sbin/sshd ] && ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; }
    if has_all || ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then exit 0; fi
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
    fi
    apt-cache show openssh-server >/dev/null 2>&1 || apt-get update -qq || true
    DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends openssh-server postgresql >/dev/null || true

# The console's pages in Chromium. Pictures stay in target/browser.
[group('test')]
test-console: _programs _chromium (_browser "console")

# A walk by Chromium: the tests of that name in tests/browser.
_browser name:
    @command -v npm >/dev/null || \
        { echo "SKIPPED: a walk by a browser needs Node.js 20: https://nodejs.org"; exit 0; }; \
    chromium=$(command -v chromium || command -v chromium-browser || true); \
    test -n "$chromium" || { echo "SKIPPED: a walk by a browser needs Chromium: apt-get install chromium"; exit 0; }; \
    cd tests/browser && npm ci --silent --ignore-scripts --no-audit --no-fund && \
    CHROMIUM=$chromium WINDLASS_TARGET={{ target }} node --test --test-timeout=1800000 \
        --test-reporter=./reporter.mjs {{ name }}.test.mjs

# A state directory in which the default policies are compiled, for tests that start many servers.
_compiled: _programs
    @env -i HOME={{ target }}/compiled {{ target }}/debug/windlass --state-dir {{ target }}/compiled policy list >/dev/null

# Debian's Chromium, where there is none and it can be installed.
_chromium:
    #!/usr/bin/env bash
    set -u
    if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then exit 0; fi
    if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then exit 0; fi
    apt-cache show chromium >/dev/null 2>&1 || apt-get update -qq || true
    DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null || true

# Weeks of two tenants on one controller, by seed: `just weeks 50`, `just weeks 1 17` for one again.
[group('search')]
weeks count="10" from="1": _programs
    tests/kubernetes/go/build.sh
    WINDLASS_KUBERNETES_REQUIRED=1 WINDLASS_WEEKS={{ count }} WINDLASS_WEEKS_FROM={{ from }} \
        cargo test --workspace --test kubernetes -- --nocapture weeks

# A deployment of Macs on this machine, scaled up, rolled and scaled down. No account needed.
[group('start')]
demo-kubernetes: _wasm_target
    @tests/kubernetes/go/build.sh
    @cargo build --quiet --package windlass-controller
    @cargo run --quiet --package windlass-test-kubernetes --example demo

# A cluster is created, grown, repaired and terminated: `just bench-clusters 200 2000`, with ratios to the first.
[group('measure')]
bench-clusters *nodes: _wasm_target
    cargo bench --quiet --package windlass-cluster --bench cluster -- {{ nodes }}

# Hosts that write to one PostgreSQL at the same time, beside one host with a file.
[group('measure')]
bench-shared-state: _servers
    cargo bench --quiet --package windlass-postgres --bench shared

# Five hundred machines, a hundred releases at once, clusters of up to 1,000 servers, 1,000 teams with keys.
[group('measure')]
bench-kubernetes: _wasm_target
    @tests/kubernetes/go/build.sh
    cargo build --profile dist --quiet --package windlass-controller
    @WINDLASS_CONTROLLER={{ target }}/dist/windlass-controller \
        cargo run --quiet --package windlass-test-kubernetes --example crowd
    @WINDLASS_CONTROLLER={{ target }}/dist/windlass-controller \
        cargo run --quiet --package windlass-test-kubernetes --example servers
    @WINDLASS_CONTROLLER={{ target }}/dist/windlass-controller \
        cargo run --quiet --package windlass-test-kubernetes --example namespaces

# The pictures of the README: a run of the demo, and the overview in its dark colours.
[group('generate')]
pictures: _wasm_target
    cargo build --quiet --package windlass-cli --bins --example picture
    { echo '$ just demo'; CLICOLOR_FORCE=1 {{ just_executable() }} demo; } > {{ target }}/demo.txt
    for scheme in light dark; do \
        {{ target }}/debug/examples/picture $scheme < {{ target }}/demo.txt > docs/pictures/demo-$scheme.svg; \
    done
    { sed '/<\/style>/q' docs/pictures/overview-dark.svg; sed '1,/<\/style>/d' docs/pictures/overview-light.svg; } \
        > {{ target }}/overview-dark.svg
    mv {{ target }}/overview-dark.svg docs/pictures/

# The runner plugin, with so many instances among so many servers: `just bench-fleeting 500 10000`. Needs Go.
[group('measure')]
bench-fleeting instances="1000" servers="50000": _wasm_target
    @command -v go >/dev/null || { echo "SKIPPED: GitLab's own code needs Go: https://go.dev/dl"; exit 0; }; \
    cargo build --quiet --profile dist --package windlass-fleeting --bin fleeting-plugin-scaleway && \
    cargo build --quiet --release --package windlass-simulator --example serve && \
    cd tests/fleeting-go && \
    WINDLASS_MEASURE=1 WINDLASS_OURS={{ instances }} WINDLASS_SERVERS={{ servers }} \
    WINDLASS_FLEETING_PLUGIN={{ target }}/dist/fleeting-plugin-scaleway \
    WINDLASS_SIMULATOR={{ target }}/release/examples/serve \
    go test -timeout 60m -count=1 -v -run 'TestMeasure|ServersOfOthers|Hundred' ./...

# Format, lints, docs and the dependency rules, all with warnings denied.
[group('start')]
check: _wasm_target format-check home-check clippy docs deny

# Formats the code.
[group('start')]
format:
    cargo fmt --all

# Where the project is at home; `just home REPOSITORY REGISTRY` moves there, as a fork does.
[group('release')]
home *arguments:
    @deploy/home {{ arguments }}

[private]
home-check:
    @deploy/home check

[private]
format-check:
    cargo fmt --all --check

[private]
clippy: _wasm_target
    cargo clippy --workspace --all-targets -- --deny warnings

[private]
docs: _wasm_target
    RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --quiet

# Bans, licences and sources. The advisory database needs a network that not everybody has.
[group('start')]
deny:
    @command -v cargo-deny >/dev/null || cargo install --locked --debug cargo-deny
    cargo deny --log-level error check --deny unmatched-skip --deny unnecessary-skip bans licenses sources

# The runner plugin, static, as `fleeting-artifact release` takes it: dist/linux/{amd64,arm64}/plugin.
[group('release')]
dist:
    #!/usr/bin/env bash
    set -euo pipefail
    WINDLASS_GIT_REVISION=$(git rev-parse HEAD); WINDLASS_GIT_REFERENCE=$(git rev-parse --abbrev-ref HEAD)
    WINDLASS_BUILT_AT=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    export WINDLASS_GIT_REVISION WINDLASS_GIT_REFERENCE WINDLASS_BUILT_AT
    for architecture in x86_64:amd64 aarch64:arm64; do
        machine=${architecture%:*} name=${architecture#*:} target=${architecture%:*}-unknown-linux-musl
        # What is written in C (SQLite, ring, the allocator) needs musl's headers: its specs have glibc's gcc use them.
        gcc=$machine-linux-gnu-gcc specs=/usr/lib/$machine-linux-musl/musl-gcc.specs variable=${target//-/_}
        command -v "$gcc" >/dev/null || { echo "SKIPPED linux/$name: no $gcc"; continue; }
        [ -f "$specs" ] || { echo "SKIPPED linux/$name: no $specs"; continue; }
        export "CC_$variable=$gcc" "CFLAGS_$variable=-specs=$specs" "CARGO_TARGET_${variable^^}_LINKER=$gcc"
        rustup target list --installed | grep -qx "$target" || rustup target add "$target"
        cargo build --profile dist --target "$target" --package windlass-fleeting --bin fleeting-plugin-scaleway
        program={{ target }}/$target/dist/fleeting-plugin-scaleway
        if readelf --program-headers "$program" | grep INTERP >&2; then echo "linux/$name is not static" >&2; exit 1; fi
        install -D -m 755 "$program" "dist/linux/$name/plugin"
    done
    ls -l dist/linux/*/plugin

# The controller's image, by whichever of docker, podman and buildah works here.
[group('release')]
image name="ghcr.io/windlass-dev/windlass-controller:v0.1.0" base="gcr.io/distroless/cc-debian13:nonroot":
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --profile dist --package windlass-controller --bin windlass-controller
    install -D -m 755 "{{ target }}/dist/windlass-controller" dist/image/windlass-controller
    for builder in docker podman buildah; do
        "$builder" info >/dev/null 2>&1 || continue
        exec "$builder" build --build-arg BASE="{{ base }}" --tag "{{ name }}" \
            --file host/controller/Containerfile dist/image
    done
    echo "SKIPPED: none of docker, podman and buildah works here; the program alone is dist/image/windlass-controller"

# All that a release consists of, into dist/vVERSION; publishes nothing (docs/releasing.md).
[group('release')]
release version *arguments:
    @deploy/release/release {{ version }} {{ arguments }}

# Whether two builds of a release are equal byte for byte, and if not, what differs.
[group('release')]
release-compare one other:
    @deploy/release/compare {{ one }} {{ other }}

# A whole release of the tree, installed in every way that a user may: an hour or two.
[group('test')]
test-release: _release_packages _programs _python
    rm -rf {{ target }}/release-rehearsal
    deploy/release/release $(deploy/release/version) --rehearse --output {{ target }}/release-rehearsal
    WINDLASS_RELEASE_REQUIRED=1 tests/release/run {{ target }}/release-rehearsal

# A release of the development build, for this machine and without Kubernetes, installed.
[group('test')]
test-packages: _programs _python
    @command -v go >/dev/null || \
        { echo "SKIPPED: the tools that make a release are built with Go: https://go.dev/dl"; exit 0; }; \
    command -v npm >/dev/null || \
        { echo "SKIPPED: a release has a package for npm: https://nodejs.org"; exit 0; }; \
    test -x {{ python }} || exit 0; rm -rf {{ target }}/release-packages; \
    WINDLASS_RELEASE_PROGRAMS={{ target }}/debug \
        deploy/release/release $(deploy/release/version) --rehearse --output {{ target }}/release-packages && \
    tests/release/run {{ target }}/release-packages --without-kubernetes

# Debian's packages that a release and its rehearsal need, where apt can install them.
_release_packages:
    #!/usr/bin/env bash
    set -euo pipefail
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || exit 0
    dpkg --add-architecture arm64
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        musl-tools gcc-aarch64-linux-gnu musl-dev:arm64 qemu-user-static mmdebstrap rpm minisign lintian >/dev/null

# Two pages of figures and ratios, decisions first, operations after.
[group('measure')]
bench: _wasm_target
    cargo bench --quiet --package windlass-policy --bench summary
    cargo bench --quiet --package windlass-lifecycle --bench lifecycle

# A decision from Python and Node.js beside an echo. `go test -bench RoundTrip` in clients/go is Go's.
[group('measure')]
bench-clients count="20000": _programs _clients_python _clients_node
    @test -x {{ clients_python }} || exit 0; cd clients/python && \
        WINDLASS_COMMAND_LINE={{ target }}/debug/windlass {{ clients_python }} bench.py {{ count }}
    @command -v npm >/dev/null || exit 0; cd clients/node && node_modules/.bin/tsc && \
        WINDLASS_COMMAND_LINE={{ target }}/debug/windlass node bench.mjs {{ count }}

# What scripts cost, and that they cost other policies nothing. Needs Node.js and Python.
[group('measure')]
bench-scripts: _programs
    @rm -rf {{ target }}/bench-scripts; for language in javascript python; do \
        {{ target }}/debug/windlass policy new bench --slot retry --language $language \
            --folder {{ target }}/bench-scripts/$language && \
        {{ target }}/debug/windlass policy build {{ target }}/bench-scripts/$language; done
    folder={{ target }}/bench-scripts; \
    WINDLASS_BENCH_SCRIPTS="JavaScript=$folder/javascript/bench.wasm Python=$folder/python/bench.wasm" \
        cargo bench --quiet --package windlass-policy --bench scripts

# Replaces a policy under load by one in another language. Needs Go, Node.js and Python.
[group('search')]
swaps seconds="60": _programs
    @rm -rf {{ target }}/swaps; mkdir -p {{ target }}/swaps; for language in rust javascript python; do \
        {{ target }}/debug/windlass policy new $language --slot retry --language $language \
            --folder {{ target }}/swaps/source/$language && \
        {{ target }}/debug/windlass policy build {{ target }}/swaps/source/$language \
            --out {{ target }}/swaps/$language.wasm; done
    {{ target }}/debug/windlass policy new rules --slot retry --language rules --folder {{ target }}/swaps/source/rules
    cp {{ target }}/swaps/source/rules/*.rules.toml {{ target }}/swaps
    cd clients/go && WINDLASS_COMMAND_LINE={{ target }}/debug/windlass \
        WINDLASS_LANGUAGES={{ target }}/swaps WINDLASS_SWAPS_FOR={{ seconds }}s \
        go test -timeout 0 -count=1 -v -run TestSwapsBetweenLanguagesLoseNoDecision .

# A proof of the slot `release` over all its questions, and 100,000 replays.
[group('measure')]
bench-proof: _wasm_target
    cargo bench --quiet --package windlass-proof --bench proof

# An audit of 10,000 servers.
[group('measure')]
bench-audit: _wasm_target
    cargo bench --quiet --package windlass-cli --bench audit

# A rehearsal of a Monday of up to 500 servers.
[group('measure')]
bench-rehearse: _wasm_target
    cargo bench --quiet --package windlass-rehearsal --bench day

# What spans cost where nothing is exported, and where all is.
[group('measure')]
bench-telemetry:
    cargo bench --quiet --package windlass-telemetry --bench telemetry

# Each page of the console over 100,000 operations and 5 million decisions (3 GB).
[group('measure')]
bench-console: _wasm_target
    cargo bench --quiet --package windlass-console --bench pages

# Distributions by criterion. Arguments go to it: `just bench-details retry`.
[group('measure')]
bench-details *arguments: _wasm_target
    cargo bench --package windlass-policy --bench decisions -- {{ arguments }}

# The programs that other people's clients are set upon. Built as `cargo test --workspace` builds them, with the same
# features in the libraries, so that nothing is compiled twice.
_programs: _wasm_target
    cargo build --quiet --workspace --bins --examples

# Rust's WebAssembly target: automatic installation may be switched off, so it is added here when it is missing.
_wasm_target:
    @rustup target list --installed | grep -qx wasm32-unknown-unknown || { \
        echo "Policies are WebAssembly: adding Rust's target for it (once, some 20 MB)."; \
        rustup target add wasm32-unknown-unknown; }

# A virtual environment for the Python clients, made again when their versions change.
_python:
    #!/usr/bin/env bash
    set -euo pipefail
    command -v python3 >/dev/null || {
        echo "SKIPPED: other people's clients in Python need python3: https://www.python.org/downloads"
        exit 0
    }
    cat tests/*/requirements.txt | cmp -s - "{{ target }}/python/requirements.txt" && exit
    echo "Installing the Python clients into target/python (once)."
    python3 -m venv --clear "{{ target }}/python"
    "{{ python }}" -m pip install --quiet $(printf -- '--requirement %s ' tests/*/requirements.txt)
    cat tests/*/requirements.txt > "{{ target }}/python/requirements.txt"

# What makes, checks and tests the Python client, and makes its messages.
# ClickHouse as a library for Python. It names pandas, which only its data frames need.
_clickhouse:
    #!/usr/bin/env bash
    set -euo pipefail
    folder="{{ target }}/clickhouse"
    command -v python3 >/dev/null || {
        echo "SKIPPED: ClickHouse runs here within Python: https://www.python.org/downloads"
        exit 0
    }
    wanted=$(echo "{{ chdb }}"; cat tests/queries/packages.txt)
    [ "$wanted" = "$(cat "$folder/packages.txt" 2>/dev/null)" ] && exit
    echo "Installing ClickHouse into target/clickhouse (once): 100 MB, 350 MB on disk."
    python3 -m venv --clear "$folder"
    if "{{ clickhouse }}" -m pip install --quiet --requirement tests/queries/packages.txt &&
        "{{ clickhouse }}" -m pip install --quiet --no-deps "chdb-core-lite=={{ chdb }}"; then
        echo "$wanted" > "$folder/packages.txt"
    else
        rm -rf "$folder"
        echo "SKIPPED: ClickHouse for Python (chdb) cannot be installed here"
    fi

_clients_python:
    #!/usr/bin/env bash
    set -euo pipefail
    command -v python3 >/dev/null || {
        echo "SKIPPED: the client in Python needs python3: https://www.python.org/downloads"
        exit 0
    }
    cmp -s clients/python/requirements.txt "{{ target }}/clients-python/requirements.txt" && exit
    python3 -m venv --clear "{{ target }}/clients-python"
    "{{ clients_python }}" -m pip install --quiet --require-hashes --requirement clients/python/requirements.txt
    cp clients/python/requirements.txt "{{ target }}/clients-python"

# The same for Node.js: what makes the messages is apart, since it is a hundred megabytes.
_clients_node:
    @command -v npm >/dev/null || { echo "SKIPPED: the client in Node.js needs it: https://nodejs.org"; exit 0; }; \
    for folder in . generate; do \
        (cd clients/node/$folder; cmp -s package-lock.json node_modules/.installed-package-lock.json && exit; \
            npm ci --silent --ignore-scripts --no-audit --no-fund && \
            cp package-lock.json node_modules/.installed-package-lock.json) || exit; \
    done

# Prometheus' promtool, unpacked from Debian's package where there is none and apt can fetch it. Nothing is installed.
_promtool:
    #!/usr/bin/env bash
    set -euo pipefail
    if command -v promtool >/dev/null || [ -x "{{ promtool }}" ] || ! command -v apt-get >/dev/null; then exit 0; fi
    mkdir -p "{{ target }}/prometheus" && cd "{{ target }}/prometheus"
    apt-cache show prometheus >/dev/null 2>&1 || apt-get update -qq || true
    apt-get download -qq prometheus && dpkg-deb --extract prometheus_*.deb . || true

# What is made of the contract in wit/: types, tables, messages and bindings, and from the messages the clients'.
[group('generate')]
bindings: && _go_messages _python_messages _node_messages
    WINDLASS_BLESS=1 cargo test --quiet --package windlass-test-contract

# Packages the published crates and builds each from its package: `--no-verify` packages only.
[group('release')]
package *arguments:
    cargo package $(printf -- '--package %s ' {{ replace(public, "\n", " ") }}) {{ arguments }}

_go_messages:
    @command -v go >/dev/null || { echo "SKIPPED: the messages in Go need it: https://go.dev/dl"; exit 0; }; \
    cd clients/go/generate && go run . {{ justfile_directory() }}/host/serve/proto ../policyv1

_python_messages: _clients_python
    @test -x {{ clients_python }} || exit 0; \
    {{ clients_python }} clients/python/generate.py host/serve/proto clients/python/src/windlass_client/policyv1

_node_messages: _clients_node
    @command -v npm >/dev/null || exit 0; \
    node clients/node/generate/generate.mjs host/serve/proto clients/node/src/policyv1

# The policies that the host embeds, after a change in guest/ or of the compiler.
[group('generate')]
policies: _wasm_target
    WINDLASS_WRITE_POLICIES=1 cargo test --quiet --package windlass-test-guests --test it prebuilt::

# The pages of the reference and the definitions, from the code.
[group('generate')]
reference: _wasm_target
    WINDLASS_BLESS=1 WINDLASS_WRITE_DEFINITIONS=1 cargo test --quiet --workspace --no-fail-fast \
        --lib --bin windlass --test it -- pages:: the_page_of the_published_schema examples::the_sdk definitions

# The site of the documentation into target/site: `just site --open`.
[group('generate')]
site *arguments: _mdbook
    python3 docs/site/assemble.py {{ target }}/site-source
    mdbook build {{ target }}/site-source --dest-dir {{ target }}/site {{ arguments }}

# The site's links, and its pages in Chromium. Pictures stay in target/browser/site.
[group('test')]
test-site: site && _chromium (_browser "site")
    python3 docs/site/check.py {{ target }}/site

# mdBook takes some minutes to build, once.
_mdbook:
    @mdbook --version 2>/dev/null | grep -qx "mdbook v{{ mdbook }}" || \
        cargo install --locked mdbook --version {{ mdbook }} --no-default-features --features search

# Commits since the last release, as the ground of a section: `just changelog v0.1.0..`.
[group('release')]
changelog *arguments="--unreleased":
    @command -v git-cliff >/dev/null || cargo install --locked git-cliff --version {{ git_cliff }} --no-default-features
    @git-cliff --config cliff.toml {{ arguments }}
