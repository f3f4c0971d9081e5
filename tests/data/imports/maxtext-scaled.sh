# Written by us in the style of MaxText's scripts for TPUs: a model of its own by its scale.
python3 -m MaxText.train MaxText/configs/base.yml global_parameter_scale=32 per_device_batch_size=2 remat_policy=full \
  max_target_length=2048 attention='flash' dataset_type=synthetic
