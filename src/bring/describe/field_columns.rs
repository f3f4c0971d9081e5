//! The column of each field.

/// Fields of the workload and the columns that give them.
pub fn columns() -> impl Iterator<Item = (&'static str, &'static str)> {
    COLUMNS.split_whitespace().filter_map(|pair| pair.split_once('='))
}

const COLUMNS: &str = "model.name=model model.layers=layers model.hidden=hidden model.heads=heads \
    model.kv_heads=kv_heads model.head_size=head_dim model.ffn=ffn model.vocabulary=vocab \
    model.sequence=seq model.gated_mlp=gated_mlp model.moe.experts=experts model.moe.top_k=top_k \
    model.moe.ffn=moe_ffn model.prediction_modules=mtp_layers batch.global=gbs_seqs \
    batch.micro_batch=mbs_seqs parallelism.tensor=tp parallelism.pipeline.size=pp \
    parallelism.pipeline.chunks=vp parallelism.pipeline.layer_split=pp_layout \
    parallelism.context.size=cp parallelism.data=dp parallelism.expert=ep \
    parallelism.expert_tensor=expert_tp parallelism.sequence_parallel=seq_parallel";
