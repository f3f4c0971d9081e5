#!/bin/sh
# Loads traces in the real Perfetto trace processor and refuses any import error.
#
#   .ci/trace-check.sh TRACE...        .json, .json.gz, .pftrace
#   .ci/trace-check.sh --self-test     a bad trace must be refused
#   STEPSIM=PROGRAM .ci/trace-check.sh --sql "WORKLOAD [SETTING...]"...
#                                      asks it the questions of docs/how-to/sql.md: both formats must answer as the report does
#
# The checks lie outside of this repository, in $STEPSIM_SHARED/trace-checks or ../shared/trace-checks; without them
# nothing is checked and that is said. What they need is kept in $STEPSIM_CHECKS, by default a folder of the user's
# cache. Exit status: 0 good or skipped, 1 a trace is bad, 2 wrong use.
set -eu
if [ "${1:-}" = --self-test ]; then
  # A slice that outlasts the one around it must be refused.
  bad=$(mktemp --suffix .json)
  trap 'rm -f "$bad"' EXIT
  printf '%s' '{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":0.000,"dur":2.000,"name":"a"},' \
    '{"ph":"X","pid":1,"tid":1,"ts":1.000,"dur":5.000,"name":"b"}]}' >"$bad"
  said=$(sh "$0" "$bad" 2>&1) && case $said in *skipped*) ;; *) echo "trace-check: the gate does not close"; exit 1 ;; esac
  exit 0
fi
[ $# -gt 0 ] || { echo "use: .ci/trace-check.sh TRACE..." >&2; exit 2; }

# Says why nothing is checked. A clone has no folder of checks beside it; where there is one and CI is set, that what it
# needs is missing is a failure.
skip() {
  echo "skipped: traces are not loaded in Perfetto ($1)"
  [ -z "${CI:-}" ] || [ -z "$checks" ] || exit 1
  exit 0
}

root=$(cd "$(dirname "$0")/.." && pwd)
checks=
for folder in "${STEPSIM_SHARED:-$root/../shared}" "$root/../../shared"; do
  [ -f "$folder/trace-checks/check_perfetto.mjs" ] && checks=$folder/trace-checks && break
done
if [ -z "$checks" ] || ! command -v node >/dev/null || ! command -v python3 >/dev/null; then
  skip "needs trace-checks beside the repository, node and python3"
fi

cache=${STEPSIM_CHECKS:-${XDG_CACHE_HOME:-$HOME/.cache}/stepsim-checks}
mkdir -p "$cache"
if ! sh "$checks/setup.sh" "$cache/venv" >"$cache/setup.log" 2>&1; then
  skip "setup failed, see $cache/setup.log"
fi
export PYTHON="$cache/venv/bin/python"

if [ "$1" = --sql ]; then
  shift
  reader="node $checks/tp.mjs"
  if python3 "$root/.ci/sql-check.py" --self-test "$reader" >/dev/null 2>&1; then
    echo "sql-check: the gate does not close"
    exit 1
  fi
  exec python3 "$root/.ci/sql-check.py" "$reader" "$@"
fi

status=0
timeout 300 node "$checks/check_perfetto.mjs" "$@" || status=1
for trace in "$@"; do
  case $trace in
    # Its time grows with the square of the slices of a row.
    *.json | *.json.gz) [ "$(wc -c <"$trace")" -gt 4000000 ] || timeout 300 node "$checks/check_trace.mjs" "$trace" || status=1 ;;
  esac
done
exit $status
