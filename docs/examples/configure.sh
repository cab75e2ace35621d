#!/bin/sh
set -eu
nodes=$(sed 's/"others":.*//' | grep -o '"name":"[^"]*"' | cut -d'"' -f4)
for node in $nodes; do echo "$node" >> inventory; done
echo "configured:" $nodes
