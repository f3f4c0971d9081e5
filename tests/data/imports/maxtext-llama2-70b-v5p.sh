# Written by us in the style of MaxText's scripts for TPUs: settings behind the program, over those of base.yml.
set -e
export EXECUTABLE="train"
for ARGUMENT in "$@"; do
    IFS='=' read -r KEY VALUE <<< "$ARGUMENT"
    export "$KEY"="$VALUE"
done
export LIBTPU_INIT_ARGS="--xla_tpu_enable_async_collective_fusion=true --xla_enable_async_all_gather=true"
python3 -m maxtext.trainers.pre_train.$EXECUTABLE "${CONFIGS:-configs}"/base.yml model_name=llama2-70b\
  base_output_directory=$OUTPUT_PATH remat_policy=full per_device_batch_size=4 ici_fsdp_parallelism=-1\
  steps=30 max_target_length=4096 dataset_type=synthetic
