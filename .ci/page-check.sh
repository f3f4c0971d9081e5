#!/bin/sh
# Writes the page of each workload, and one of every other command that has a page: each must be below 2 MB, and open in
# headless Chromium without a word on the console, and be no wider than its window: light at 400 px, dark at 1,300.
#
#   .ci/page-check.sh STEPSIM WORKLOAD...
#
# Without Chromium ($CHROMIUM, else that on the path) only sizes are checked and that is said. Exit status: 0 good, 1 not.
set -eu
stepsim=$1
shift
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$browser" ] || echo "skipped: pages are not opened, there is no Chromium"

# What a page writes to the console, uncaught errors among it, and its width where that is wider than the window of $1 pixels.
# The narrowest window of headless Chromium is 500: in a narrower one the page is a frame.
console() {
  width='document.documentElement.scrollWidth'
  sed "s#</body>#<script>if ($width > innerWidth) console.error('too wide: ' + $width)</script></body>#" "$page" >"$out/seen.html"
  window=$1
  shift
  if [ "$window" -lt 500 ]; then
    sed 's/&/\&amp;/g; s/"/\&quot;/g' "$out/seen.html" >"$out/quoted"
    { printf '<html><body><iframe style="width: %spx; height: 800px" srcdoc="' "$window"; cat "$out/quoted"; printf '"></iframe></body></html>'; } \
      >"$out/seen.html"
  fi
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --enable-logging=stderr "--window-size=$window,800" "$@" \
    --dump-dom "file://$out/seen.html" 2>&1 >"$out/dom" | grep ':CONSOLE' || true
}

status=0
check() {
  page=$out/$1.html
  size=$(wc -c <"$page")
  said=
  if [ -n "$browser" ]; then
    said=$(console 400)$(console 1300 --blink-settings=preferredColorScheme=0)
    grep -q '</html>' "$out/dom" || said="$said it did not open"
  fi
  if [ "$size" -lt 2000000 ] && [ -z "$said" ]; then
    echo "ok   $1: page of $((size / 1000)) kB"
  else
    echo "FAIL $1: page of $((size / 1000)) kB, below 2000 kB is allowed; console: $said"
    status=1
  fi
  rm -f "$page"
}

if [ -n "$browser" ]; then
  page=$out/bad.html
  printf '<html><body><script>missing()</script></body></html>' >"$page"
  [ -n "$(console 1300)" ] || { echo "page-check: the gate does not close"; exit 1; }
  printf '<html><body><div style="width:3000px">wide</div></body></html>' >"$page"
  [ -n "$(console 1300)" ] && [ -n "$(console 400)" ] || { echo "page-check: the gate of widths does not close"; exit 1; }
fi
for workload in "$@"; do
  "$stepsim" run "$workload" -q --html "$out/$workload.html" --report "$out/$workload.json" 2>/dev/null
  check "$workload"
done
"$stepsim" schedule --kind dualpipe -p 8 -m 32 --html "$out/schedule.html" >/dev/null
"$stepsim" collective --topology h100-superpod-8 --op all-reduce --bytes 16Mi --fidelity steps --html "$out/collective.html" >/dev/null
"$stepsim" diff tiny-4 tiny-4 --set-b batch.micro_batch=2 --html "$out/diff.html" >/dev/null
"$stepsim" run tiny-4 -q --trace-ranks all --format kineto -o "$out/profiles"
"$stepsim" analyze "$out"/profiles/* --html "$out/analyze.html" >/dev/null
"$stepsim" sweep tiny-4 --vary batch.micro_batch=1,2 --html "$out/sweep.html" >/dev/null 2>&1
"$stepsim" plan tiny-4 -o "$out/planned.json" --html "$out/plan.html" >/dev/null
for page in schedule collective diff analyze sweep plan; do check "$page"; done
exit $status
