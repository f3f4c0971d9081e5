# Written by us in the style of NeMo 2's recipes: a factory each for model, trainer and the whole.
import nemo_run as run
import torch

NAME = "llama31_70b"


@run.cli.factory(name=NAME)
def model() -> run.Config[pl.LightningModule]:
    return run.Config(LlamaModel, config=run.Config(Llama31Config70B))


def trainer(
    tensor_parallelism: int = 4,
    pipeline_parallelism: int = 4,
    virtual_pipeline_parallelism: Optional[int] = 5,
    context_parallelism: int = 2,
    num_nodes: int = 4,
    num_gpus_per_node: int = 8,
) -> run.Config[nl.Trainer]:
    strategy = run.Config(
        nl.MegatronStrategy,
        tensor_model_parallel_size=tensor_parallelism,
        pipeline_model_parallel_size=pipeline_parallelism,
        pipeline_dtype=torch.bfloat16,
        virtual_pipeline_model_parallel_size=virtual_pipeline_parallelism,
        context_parallel_size=context_parallelism,
        sequence_parallel=True,
        ddp=run.Config(DistributedDataParallelConfig, grad_reduce_in_fp32=True, overlap_grad_reduce=True),
    )
    trainer = run.Config(
        nl.Trainer,
        devices=num_gpus_per_node,
        num_nodes=num_nodes,
        max_steps=100,
        plugins=bf16_mixed(),
        strategy=strategy,
    )
    return trainer


@run.cli.factory(target=pretrain, name=NAME)
def pretrain_recipe(
    name: str = "default", num_nodes: int = 8, num_gpus_per_node: int = 8, performance_mode: bool = False
) -> run.Partial:
    recipe = run.Partial(
        pretrain,
        model=model(),
        trainer=trainer(num_nodes=num_nodes, num_gpus_per_node=num_gpus_per_node),
        data=run.Config(MockDataModule, seq_length=8192, global_batch_size=512, micro_batch_size=1),
        optim=distributed_fused_adam_with_cosine_annealing(max_lr=3e-4),
    )
    if performance_mode:
        recipe = faster(recipe)
    return recipe


def faster(recipe: run.Partial) -> run.Partial:
    recipe.trainer.plugins.grad_reduce_in_fp32 = False
    return recipe
