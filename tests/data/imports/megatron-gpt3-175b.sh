#!/bin/bash
# Arguments of NVIDIA/Megatron-LM examples/gpt3/train_gpt3_175b_distributed.sh (157006d), written out here field by field.
GPUS_PER_NODE=8
NUM_NODES=128   # the example says 1, which 8 x 16 devices do not fit
DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES --master_addr localhost)
MODEL=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto # flash, fused, unfused, local
)
TRAINING=(
    --micro-batch-size 1
    --global-batch-size 1536
    --rampup-batch-size 16 16 5859375
    --train-iters 500000
    --weight-decay 0.1
    --adam-beta1 0.9
    --adam-beta2 0.95
    --init-method-std 0.006
    --clip-grad 1.0
    --fp16
    --lr 6.0e-5
    --lr-decay-style cosine
    --min-lr 6.0e-6
    --lr-warmup-fraction .001
    --lr-decay-iters 430000
)
PARALLEL=(--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16)
DATA=(--data-path $DATA_PATH --vocab-file $1 --merge-file $2 --split 949,50,1)
LOGGING=(--log-interval 100 --save-interval 10000 --eval-interval 1000 --save "$CHECKPOINT" --load "$CHECKPOINT" --eval-iters 10)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${MODEL[@]} ${TRAINING[@]} ${PARALLEL[@]} ${DATA[@]} ${LOGGING[@]}
