# Written by us in the style of torchtitan's config_registry.py of 2026: a function for each run, calls inside one another.
from torchtitan.components.quantization import Float8LinearConverter
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.trainer import Trainer

from . import model_registry

CONTEXT: int = 8192


def llama3_8b() -> Trainer.Config:
    """One line, and "quotes" (of which nothing is read)."""
    return Trainer.Config(
        hf_assets_path="./assets/hf/Llama-3.1-8B",
        model_spec=model_registry("8B"),
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(
            num_tokens_per_microbatch_per_dp_rank=2 * CONTEXT,  # two sequences
            max_context_length=CONTEXT,
            steps=1_000,
        ),
        checkpoint=CheckpointManager.Config(interval=500),
        activation_checkpoint=SelectiveAC.Config(),
    )


def llama3_8b_compiled() -> Trainer.Config:
    config = llama3_8b()
    config.compile = CompileConfig(enable=True, components=["model"])
    config.activation_checkpoint = None
    split(config, stages=2)
    return config


def split(config, stages: int = 1, float8: bool = False):
    config.parallelism.pipeline_parallel_degree = stages
    config.parallelism.num_pp_microbatches = 4 * stages
    if float8:
        config.model_spec = model_registry("8B", converters=[Float8LinearConverter.Config()])
    if not float8:
        config.parallelism.tensor_parallel_degree = 2


def llama3_405b() -> Trainer.Config:
    compiled = CompileConfig(enable=True, enable_async_tensor_parallel=True)
    spec = model_registry(
        "405B",
        converters=[
            Float8LinearConverter.Config(filter_fqns=["lm_head"], model_compile_enabled=(compiled.enable and True)),
        ],
    )
    return Trainer.Config(
        hf_assets_path="./assets/hf/Llama-3.1-405B",
        model_spec=spec,
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192),
        parallelism=ParallelismConfig(tensor_parallel_degree=8),
        activation_checkpoint=FullAC.Config(),
        compile=compiled,
    )
