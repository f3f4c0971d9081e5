#!/bin/bash
# A training script with a gate beside it: gate.json is what was agreed on (stepsim gate --write gate.json pretrain.sh --on 16xh100).
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py \
    --num-layers 16 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm \
    --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights \
    --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 \
    --micro-batch-size 2 --global-batch-size 256 --train-iters 1000 \
    --tensor-model-parallel-size 2 --sequence-parallel \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --transformer-impl transformer_engine --use-flash-attn --bf16
