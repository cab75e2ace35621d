#!/bin/sh
set -eu
nodes=$(sed 's/"others":.*//' | grep -o '"name":"[^"]*"' | cut -d'"' -f4)
for node in $nodes; do grep -vx "$node" inventory > rest || true; mv rest inventory; done
echo "moved the work away from:" $nodes
