#!/bin/sh
# Kineto files in Meta's HolisticTraceAnalysis and AMD's TraceLens: what they find must be what the report says.
#
#   .ci/hta-check.sh STEPSIM WORKLOAD...
#
# It is installed into a folder of the user's cache ($STEPSIM_CHECKS). Where that cannot be done the check is skipped and that
# is said; with CI set it fails. Exit status: 0 equal or skipped, 1 not.
set -eu
here=$(dirname "$0")
cache=${STEPSIM_CHECKS:-${XDG_CACHE_HOME:-$HOME/.cache}/stepsim-checks}
mkdir -p "$cache"
python=$cache/hta/bin/python
if ! "$python" -c 'import hta' 2>/dev/null; then
  # pandas 3 breaks it.
  if ! { python3 -m venv "$cache/hta" && "$python" -m pip install -q 'HolisticTraceAnalysis==0.5.0' 'pandas<3'; } \
    >"$cache/hta.log" 2>&1; then
    echo "skipped: HolisticTraceAnalysis cannot be installed, see $cache/hta.log"
    [ -z "${CI:-}" ] || exit 1
    exit 0
  fi
fi
if ! "$python" -c 'import TraceLens' 2>/dev/null; then
  # It is in no registry, and asks for more than reading a file needs: $TRACELENS is a checkout of AMD-AGI/TraceLens.
  { [ -n "${TRACELENS:-}" ] &&
    "$python" -m pip install -q orjson tqdm tabulate PyYAML openpyxl StrEnum >>"$cache/hta.log" 2>&1 &&
    "$python" -m pip install -q --no-deps "$TRACELENS" >>"$cache/hta.log" 2>&1; } ||
    echo "skipped: TraceLens is not here (TRACELENS=FOLDER installs it)"
fi
if "$python" "$here/hta-check.py" --self-test "$1" >/dev/null; then
  echo "hta-check: the gate does not close"
  exit 1
fi
"$python" "$here/hta-check.py" "$@"
