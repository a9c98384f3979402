#!/bin/sh
# Three registers and a coordinator on this machine: each has a workspace, a ledger and an account of its own, and its
# rows stay there. It needs Flower (`make federation`). A second run finds the release and asks nothing of any site.
# A folder given as the first argument, for the four workspaces, is relative to the root.
set -eu
cd "$(dirname "$0")/../.."
folder=${1:-build/federation}
names="private government self-employed"

# 1. The workspaces, and who pays: the people's account at the coordinator, and one at each site.
open() { # workspace account source
    [ -f "$1/sudare.toml" ] || sudare init "$1"
    sudare budget show "$2" --workspace "$1" >/dev/null 2>&1 ||
        sudare budget open "$2" --population "people in the UCI Adult extract" --block 1994 --unit row --adjacency add_remove \
            --calculus renyi --epsilon 2 --delta 1e-5 --source "$3" --workspace "$1"
}
open "$folder/coordinator" everyone examples/federation/federation.yaml
for name in $names; do open "$folder/$name" "$name-1994" examples/adult/adult.parquet; done

# 2. The sites, each of which joins when the link is there, and ends when the release is made.
sites=
trap 'kill $sites 2>/dev/null || :' EXIT
if [ ! -d "$folder/coordinator/releases/three-registers" ]; then
    for name in $names; do
        sudare federation site "examples/federation/$name.yaml" --accept-misfits --workspace "$folder/$name" \
            >"$folder/$name.log" 2>&1 &
        sites="$sites $!"
    done
fi

# 3. The release, and the check that a stranger would make.
sudare federation run examples/federation/federation.yaml --workspace "$folder/coordinator"
sudare verify "$folder/coordinator/releases/three-registers/latest" --key "$folder/coordinator/.sudare/keys/signing.pub"
