#!/bin/sh
# Does the installation by uv work as docs/start.md says? Its three lines are typed as they stand there, in a copy of
# the tree. uv comes from PyPI, into an environment of its own. It leaves nothing behind.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
export TMPDIR="$place" UV_CACHE_DIR="$place/cache"

python3 -m venv "$place/tool"
"$place/tool/bin/python" -m pip --disable-pip-version-check install -qq uv
PATH="$place/tool/bin:$PATH"
mkdir -p "$place/clone/deploy"
cp -R sudare console flows tasks privacy contracts extensions pyproject.toml README.md LICENSE "$place/clone"
cp deploy/lock.txt "$place/clone/deploy"
cd "$place/clone"
sed -n 's/^    \(uv .*\)/\1/p' "$here/docs/start.md" >"$place/install.sh"
[ "$(wc -l <"$place/install.sh")" -eq 3 ] || { echo "check_uv.sh: docs/start.md has other lines of uv than three" >&2; exit 1; }
sh -eu "$place/install.sh" >"$place/install.log" 2>&1 || { cat "$place/install.log"; exit 1; }
PATH="$place/clone/.venv/bin:$PATH"
cd "$place"
VIRTUAL_ENV="$place/clone/.venv" uv pip check
sudare --help >/dev/null
python -c "import sudare; print(sudare.Workspace)"
echo "$(uv --version): holds"
