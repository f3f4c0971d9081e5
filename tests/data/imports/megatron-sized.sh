#!/bin/bash
# Written by us in the style of scripts that take the size of the model, batches and degrees from the line that runs them
# (as Pai-Megatron-Patch's do): options in texts that are put together, choices, sums, a launcher in a function.
#   bash megatron-sized.sh 8B 1 256 2 2
set -e

SIZE=$1
MICRO_BATCH=$2
GLOBAL_BATCH=$3
TP=$4
PP=$5
AC=${6:-none}
NNODES=${SLURM_NNODES:-4}
GPUS_PER_NODE=8
MASTER_PORT=$(shuf -n 1 -i 10000-65535)

if [ -z ${SEQ_LEN} ]; then
    SEQ_LEN=4096
fi

case "$SIZE" in
    1B) LAYERS=16; HIDDEN=2048; HEADS=32; GROUPS_OF_KEYS=8; FFN=8192 ;;
    8B)
        LAYERS=32
        HIDDEN=4096
        HEADS=32
        GROUPS_OF_KEYS=8
        FFN=14336
        ;;
    *) echo "which size?"; exit 1 ;;
esac

if [[ $AC == full && $PP -gt 1 ]]; then
    ac_options=" \
        --recompute-granularity full \
        --recompute-method uniform \
        --recompute-num-layers 1"
elif [ $AC = none ]; then
    ac_options=""
fi
if (( TP > 1 )); then
    sp_options="--sequence-parallel"
fi

# Of the tokens of the run follows how many steps it has.
STEPS=$(( 1000000000 / GLOBAL_BATCH / SEQ_LEN ))

model_options=" \
    --num-layers ${LAYERS} \
    --hidden-size ${HIDDEN} \
    --num-attention-heads ${HEADS} \
    --ffn-hidden-size ${FFN} \
    --group-query-attention \
    --num-query-groups ${GROUPS_OF_KEYS} \
    --seq-length ${SEQ_LEN} \
    --max-position-embeddings 8192 \
    --swiglu \
    --normalization RMSNorm \
    --disable-bias-linear \
    --position-embedding-type rope \
    --untie-embeddings-and-output-weights \
    --patch-tokenizer-type LLama3Tokenizer \
"
options=(
    --micro-batch-size "$MICRO_BATCH"   # sequences
    --global-batch-size "$GLOBAL_BATCH"
    --tensor-model-parallel-size ${TP}
    --pipeline-model-parallel-size ${PP}
    --train-iters $STEPS
    --bf16
    ${EXTRA_OPTIONS}
    --use-distributed-optimizer
)

launch() {
    cmd="torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --master_port $MASTER_PORT pretrain_gpt.py $1"
    echo ${cmd} --num-layers 1
    eval ${cmd}
}
launch "${model_options} ${options[*]} ${ac_options} ${sp_options}" 2>&1 | tee log.txt
