#!/bin/sh
# Starts the `cdc` command on a machine that has only python3 (3.10 or newer): makes the environment first, where needed.
# CDC_PYTHON names another python3.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0" 2>/dev/null || printf '%s' "$0")")" && pwd)
enough='import sys; sys.exit(sys.version_info < (3, 10))'
for python in ${CDC_PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 python3.14}; do
    if command -v "$python" >/dev/null 2>&1 && "$python" -c "$enough" 2>/dev/null; then
        exec "$python" -I "$root/cdc_assets/launcher/environment.py" "$root" "$@"
    fi
done
echo "cdc: python3 of version 3.10 or newer is needed, and not on the PATH (found: $(python3 --version 2>&1 || echo none)); install it, or set CDC_PYTHON" >&2
exit 1
