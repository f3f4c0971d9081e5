#!/bin/bash
# Written by us: a state-space model with attention and experts in between, as Megatron-Core takes it (letters of
# megatron/core/models/hybrid/hybrid_layer_allocation.py), and options in one text.
PATTERN="MEMEM*EMEMEM*EMEME"
OPTIONS=" \
    --hybrid-layer-pattern ${PATTERN} --hidden-size 2688 --num-attention-heads 32 --group-query-attention --num-query-groups 2 \
    --kv-channels 128 --ffn-hidden-size 1856 --mamba-num-heads 64 --mamba-head-dim 64 --mamba-state-dim 128 \
    --num-experts 128 --moe-router-topk 6 --moe-ffn-hidden-size 1856 --moe-shared-expert-intermediate-size 3712 \
    --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type none --normalization RMSNorm \
    --disable-bias-linear --squared-relu --untie-embeddings-and-output-weights --vocab-size 131072 \
    --micro-batch-size 1 --global-batch-size 64 --expert-model-parallel-size 8 --bf16 --use-distributed-optimizer \
"
torchrun --nproc_per_node 8 --nnodes 2 pretrain_hybrid.py ${OPTIONS}
