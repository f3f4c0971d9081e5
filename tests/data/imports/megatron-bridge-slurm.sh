#!/bin/bash
# Written by us in the style of Megatron-Bridge's job scripts: a recipe by its name, and what is set over it.
#SBATCH --nodes=8
#SBATCH --gpus-per-node=8
set -euo pipefail
MODEL_NAME=llama31_70b
RECIPE_NAME="${MODEL_NAME}_pretrain_config"
GLOBAL_BATCH_SIZE=${GLOBAL_BATCH_SIZE:-256}
PARALLELISM_CONFIGS=("4,4,2")
for CONFIG in "${PARALLELISM_CONFIGS[@]}"; do
    IFS=',' read -r TP PP CP <<< "$CONFIG"
    CLI_OVERRIDES="train.global_batch_size=$GLOBAL_BATCH_SIZE train.micro_batch_size=1 dataset.sequence_length=8192 \
        model.tensor_model_parallel_size=$TP model.pipeline_model_parallel_size=$PP model.context_parallel_size=$CP \
        model.virtual_pipeline_model_parallel_size=5 model.sequence_parallel=True"
    CMD="uv run python /opt/Megatron-Bridge/scripts/training/run_recipe.py --recipe ${RECIPE_NAME} $CLI_OVERRIDES"
    srun --mpi=pmix bash -c "$CMD"
done
