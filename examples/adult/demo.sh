#!/bin/sh
# From a raw table to a verified release, on UCI Adult. `make demo` runs this script. To type the commands by
# hand instead, activate the environment (. .venv/bin/activate) and stay in the root of the repository.
# A second run finds everything done, draws no new noise, and verifies again. A workspace given as the first
# argument is relative to the root.
set -eu
cd "$(dirname "$0")/../.."
workspace=${1:-build/demo}

# 1. A workspace: settings, keys, the ledger, and the store of releases.
[ -f "$workspace/sudare.toml" ] || sudare init "$workspace"

# 2. An account: how much may ever be learned about the people in this table, over all releases together.
sudare budget show adult-1994 --workspace "$workspace" >/dev/null 2>&1 ||
    sudare budget open adult-1994 --population "people in the UCI Adult extract" --block 1994 --unit row --adjacency add_remove \
        --calculus pure --epsilon 3 --delta 0 --source examples/adult/adult.parquet --workspace "$workspace"

# 3. The release: three noisy tables. It ends with where they are and what they cost.
sudare run examples/adult/tables.yaml --workspace "$workspace"

# 4. The check that a stranger would make, with nothing but the published folder and the public key.
sudare verify "$workspace/releases/adult-tables/latest" --key "$workspace/.sudare/keys/signing.pub"

# 5. What is left in the account.
sudare budget show adult-1994 --workspace "$workspace"
