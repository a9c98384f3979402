#!/bin/sh
# Does Sudare work on a Python? A fresh environment from deploy/lock.txt, the demo twice (the second finds its release),
# and a fixed part of the tests: reading of contracts and specs, exact noise, accounting, the ledger, `import sudare`.
#
#     sh deploy/check_python.sh python3.13
#     sh deploy/check_python.sh python3.13 duckdb==1.5.5     # then a package in another version than the lock's
#
# It leaves nothing behind. `make check-python PYTHON=python3.13` is the same.
set -eu
cd "$(dirname "$0")/.."
python=$1
other=${2:-}
began=$(date +%s)
version=$("$python" -c 'import sys; print(sys.version.split()[0])')
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
export PYTHONPYCACHEPREFIX="$place/bytecode" TMPDIR="$place" HYPOTHESIS_STORAGE_DIRECTORY="$place/hypothesis"
unset PYTHONPATH PYTHONDONTWRITEBYTECODE

"$python" -m venv "$place/python"
export PATH="$place/python/bin:$PATH"
install="python -m pip --disable-pip-version-check install --quiet --no-compile"
$install --no-deps --require-hashes -r deploy/lock.txt
mkdir "$place/source"
cp -r sudare console flows tasks privacy contracts pyproject.toml README.md LICENSE "$place/source"
$install --no-deps "$place/source"
python -m pip check
[ -z "$other" ] || $install "$other"
$install -c deploy/constraints.txt pytest pytest-timeout hypothesis
echo "Python $version: installed after $(($(date +%s) - began)) s"

sh examples/adult/demo.sh "$place/demo" >"$place/first.log" || { cat "$place/first.log"; exit 1; }
sh examples/adult/demo.sh "$place/demo" >"$place/second.log" || { cat "$place/second.log"; exit 1; }
grep -q "was published already" "$place/second.log"
echo "Python $version: the demo is done after $(($(date +%s) - began)) s"

python -m pytest -p no:cacheprovider -q $(grep -v '^#' deploy/python_tests.txt)
echo "Python $version: holds, after $(($(date +%s) - began)) s"
