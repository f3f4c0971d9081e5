# Arguments of NVIDIA/Megatron-LM examples/llama/train_llama3_8b_h100_fp8.sh (157006d), written out here field by field.
DTYPE="fp8"
TP_SIZE=${TP:-1}
SEQ_LENGTH=8192
WORLD=$((8*1))
EXTRA=()
if [[ "$DTYPE" == "fp8" ]]; then
    EXTRA+=("--fp8-format hybrid" "--fp8-amax-history-len 1024" "--fp8-amax-compute-algo max" "--fp8-param-gather")
fi
torchrun --nproc_per_node=8 --nnodes=1 pretrain_gpt.py \
    --use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length $SEQ_LENGTH \
    --max-position-embeddings 8192 --position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0 \
    --attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --init-method-std 0.0134 --attention-backend fused \
    --apply-layernorm-1p --untie-embeddings-and-output-weights --disable-bias-linear \
    --micro-batch-size 1 --global-batch-size 128 --train-samples 1953125000 --lr 0.00015 --clip-grad 1.0 \
    --bf16 --grad-reduce-in-bf16 --cross-entropy-loss-fusion --calculate-per-token-loss --manual-gc \
    --empty-unused-memory-level 1 --tensor-model-parallel-size $TP_SIZE --context-parallel-size 1 --sequence-parallel \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --mock-data --tokenizer-type NullTokenizer --vocab-size 128256 --num-workers 1 --log-interval 1 \
    "${EXTRA[@]}"
