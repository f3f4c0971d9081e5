#!/bin/sh
# Makes what of this folder a program can make: profiles and logs of simulated steps, in the formats of the tools named.
#
#   examples/data/make.sh STEPSIM
set -eu
stepsim=$1
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Two ranks of a node, as torch.profiler exports them.
"$stepsim" run gpt2-8 -t switch:2,450,1 --set parallelism.data=2 --set batch.global=8 --set model.layers=4 -q \
  --trace-ranks all --format kineto -o "$out/profile"
cp "$out"/profile/rank[01].json.gz "$here"

# What nccl-tests prints on eight devices of a node.
for op in all-reduce all-gather; do
  "$stepsim" collective --topology h100-superpod-8 --op $op --bytes 1Mi:1Gi:x4 --report "$out/$op.json" >/dev/null
  python3 - "$out/$op.json" "$op" >"$here/$(echo $op | tr - _).log" <<'END'
import json, sys
report, op = json.load(open(sys.argv[1])), sys.argv[2]
print(f"# nThread 1 nGpus 8 minBytes 1048576 maxBytes 1073741824 step: 4(factor)\n# simulated by stepsim, {op}, written as nccl-tests prints")
for rank in range(8):
    print(f"#  Rank {rank:2} Group  0 Pid {100 + rank:6} on     node-a device {rank:2} [0x{rank:02x}] NVIDIA H100 80GB HBM3")
print("#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong")
for row in report["rows"]:
    size, us, rates = row["bytes"], row["time_s"] * 1e6, f"{row['algbw_GBps']:7.2f} {row['busbw_GBps']:7.2f}      0"
    print(f"{size:12d} {size // 4:13d}     float     sum      -1 {us:8.1f} {rates} {us:8.1f} {rates}")
END
done
