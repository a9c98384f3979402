#!/bin/sh
# From a raw table to verified synthetic rows, on UCI Adult. `make demo-synthetic` runs this script. Like demo.sh, it
# can be run again: it finds everything done. A workspace given as the first argument is relative to the root.
set -eu
cd "$(dirname "$0")/../.."
workspace=${1:-build/demo-synthetic}

# 1. A workspace of its own.
[ -f "$workspace/sudare.toml" ] || sudare init "$workspace"

# 2. An account that adds up Rényi losses: Gaussian noise has no pure loss.
sudare budget show adult-1994 --workspace "$workspace" >/dev/null 2>&1 ||
    sudare budget open adult-1994 --population "people in the UCI Adult extract" --block 1994 --unit row --adjacency add_remove \
        --calculus renyi --epsilon 3 --delta 1e-9 --source examples/adult/adult.parquet --workspace "$workspace"

# 3. What it would cost and how far off it would be, without reading the data; then the release.
sudare plan examples/adult/synthetic.yaml --workspace "$workspace"
sudare run examples/adult/synthetic.yaml --workspace "$workspace"

# 4. The check that a stranger would make; --deep fits the model again from the published measurements.
sudare verify "$workspace/releases/adult-synthetic/latest" --deep --key "$workspace/.sudare/keys/signing.pub"

# 5. Further rows under a condition, from the published model: they cost nothing.
[ -f "$workspace/women.csv" ] ||
    sudare sample "$workspace/releases/adult-synthetic/latest" --rows 1000 --where sex=Female --to "$workspace/women.csv"
