#!/usr/bin/env bash
# Called by root: the tests once more, as an ordinary user, in a copy of the tree that he can read.
set -euo pipefail
cd "$(dirname "$0")/.."
as_user=(setpriv --reuid 12345 --regid 12345 --clear-groups)
if [ "$(id -u)" != 0 ] || ! "${as_user[@]}" true; then
  echo "test-user: not root, or no setpriv: run make test-core as an ordinary user instead" >&2
  exit 0
fi
for python in "${PYTHON:-python3}" /usr/bin/python3; do
  python=$(command -v "$python") || continue
  "${as_user[@]}" "$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && break
  python=
done
if [ -z "$python" ]; then
  echo "test-user: no python 3.10 or newer that an ordinary user can run" >&2
  exit 0
fi
work=$(mktemp -d /tmp/tir-user.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/home"
git ls-files -z | xargs -0 cp --parents -t "$work/tree"
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --upgrade pip
"$work/venv/bin/pip" install -q -e "$work/tree[test]"
chown -R 12345:12345 "$work"
cd "$work/tree"
env -u PYTHONPATH HOME="$work/home" TMPDIR="$work/home" "${as_user[@]}" "$work/venv/bin/python" -m pytest "$@"
