#!/bin/sh
# Back up a workspace and its ledger:  sh deploy/backup.sh WORKSPACE FOLDER
# Makes FOLDER/<time>/ with files.tar, ledger.ndjson, draws.tar and SHA256SUMS. The files come first and the ledger after
# them, so that it never forgets the charge of a version that they hold. Drawn noise comes last: no draw that the ledger
# knows is missing, and one that it does not know is replayed and entered. Keys, drawn noise, and source tables that lie
# in the workspace are in it: keep it like the workspace.
# Left out: snapshots of confidential rows (.sudare/runs), Prefect's history, and a SQLite ledger's own files.
set -eu
[ $# -eq 2 ] || { echo "usage: sh deploy/backup.sh WORKSPACE FOLDER" >&2; exit 2; }
umask 077
workspace=$1
name=$2/$(date -u +%Y-%m-%dT%H%M%SZ)
[ -f "$workspace/sudare.toml" ] || { echo "$workspace: no workspace (sudare.toml is missing)" >&2; exit 2; }
mkdir -p "$name.partial"
tar -C "$workspace" -cf "$name.partial/files.tar" --exclude=./.sudare/draws --exclude=./.sudare/runs --exclude=./.sudare/live \
    --exclude=./.sudare/prefect --exclude='./.sudare/ledger.sqlite*' .
sudare budget backup "$name.partial/ledger.ndjson" --workspace "$workspace"
# Files of draws appear whole and never change; status 1 only says that one came into a folder meanwhile.
tar -C "$workspace" -cf "$name.partial/draws.tar" --exclude='*.partial' ./.sudare/draws || [ $? -eq 1 ]
(cd "$name.partial" && sha256sum files.tar ledger.ndjson draws.tar > SHA256SUMS)
sync
mv "$name.partial" "$name"
echo "$name"
