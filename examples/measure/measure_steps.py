#!/usr/bin/env python3
"""Measures steps of fine-tuning on the device at hand, as rows for `stepsim score`.

    python3 measure_steps.py --out steps.jsonl                     every case, about five minutes on one H200
    python3 measure_steps.py --only llama-1b --profile DIR --out -  some of them, with a profile each for `stepsim analyze`
    stepsim score steps.jsonl -v

Needs PyTorch and transformers, and peft for adapters; nothing is downloaded: models have random weights. The loop is
the plainest one (loss, backward, clip, AdamW), without data loading. A step is timed from wait to wait, the median of
five behind three; memory is what the driver says is taken. Every row names its software, so prices are those of
`hf-trainer-2026`.
"""

import argparse
import contextlib
import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import transformers

# Name, layers, hidden, MLP, heads, key-value heads, head size, vocabulary, embeddings tied.
MODELS = {
    "llama-1b": ("Llama", "Llama 3.2 1B", 16, 2048, 8192, 32, 8, 64, 128256, True),
    "llama-3b": ("Llama", "Llama 3.2 3B", 28, 3072, 8192, 24, 8, 128, 128256, True),
    "llama-8b": ("Llama", "Llama 3.1 8B", 32, 4096, 14336, 32, 8, 128, 128256, False),
    "mistral-7b": ("Mistral", "Mistral 7B", 32, 4096, 14336, 32, 8, 128, 32000, False),
    "qwen2-0.5b": ("Qwen2", "Qwen2.5 0.5B", 24, 896, 4864, 14, 2, 64, 151936, True),
    "qwen2-1.5b": ("Qwen2", "Qwen2.5 1.5B", 28, 1536, 8960, 12, 2, 128, 151936, True),
    "qwen3-0.6b": ("Qwen3", "Qwen3 0.6B", 28, 1024, 3072, 16, 8, 128, 151936, True),
    "qwen3-1.7b": ("Qwen3", "Qwen3 1.7B", 28, 2048, 6144, 16, 8, 128, 151936, True),
    "qwen3-4b": ("Qwen3", "Qwen3 4B", 36, 2560, 9728, 32, 8, 128, 151936, True),
    "qwen3-8b": ("Qwen3", "Qwen3 8B", 36, 4096, 12288, 32, 8, 128, 151936, False),
    "moe-30b-6l": ("Qwen3Moe", "Qwen3 30B A3B", 6, 2048, 6144, 32, 4, 128, 151936, False),
    "gpt2": ("GPT2", "GPT-2", 12, 768, 3072, 12, 12, 64, 50257, True),
    "gemma3-1b": ("Gemma3Text", "Gemma 3 1B", 26, 1152, 6912, 4, 1, 256, 262144, True),
}
# What the configuration of some models says beyond that, and columns of their rows.
OWN = {
    "moe-30b-6l": dict(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True),
    "gpt2": dict(max_position_embeddings=1024),
    "gemma3-1b": dict(sliding_window=512, query_pre_attn_scalar=256),
}
COLUMNS = {"moe-30b-6l": dict(experts=128, top_k=8, moe_ffn=768)}
# Case: model, sequences, tokens of each, options.
CASES = {
    "llama-1b": ("llama-1b", 4, 2048, {}),
    "llama-1b-checkpoint": ("llama-1b", 8, 2048, {"checkpoint": True}),
    "llama-1b-autocast": ("llama-1b", 4, 2048, {"autocast": True}),
    "llama-1b-for-each": ("llama-1b", 4, 2048, {"optimizer": "for-each"}),
    "llama-1b-attention-eager": ("llama-1b", 2, 2048, {"attention": "eager"}),
    "llama-1b-accumulation": ("llama-1b", 2, 2048, {"accumulation": 4}),
    "llama-1b-short": ("llama-1b", 16, 512, {}),
    "llama-1b-long": ("llama-1b", 1, 16384, {"checkpoint": True}),
    "llama-3b": ("llama-3b", 2, 2048, {}),
    "llama-3b-checkpoint": ("llama-3b", 4, 4096, {"checkpoint": True}),
    "llama-8b-adapters": ("llama-8b", 2, 2048, {"rank": 16}),
    "llama-8b-adapters-checkpoint": ("llama-8b", 4, 4096, {"rank": 16, "checkpoint": True}),
    "mistral-7b-adapters": ("mistral-7b", 4, 1024, {"rank": 16}),
    "qwen2-0.5b": ("qwen2-0.5b", 8, 1024, {}),
    "qwen2-0.5b-tiny": ("qwen2-0.5b", 1, 512, {}),
    "qwen2-1.5b": ("qwen2-1.5b", 4, 2048, {}),
    "qwen2-1.5b-long": ("qwen2-1.5b", 1, 8192, {"checkpoint": True}),
    "qwen3-0.6b": ("qwen3-0.6b", 8, 1024, {}),
    "qwen3-1.7b-autocast": ("qwen3-1.7b", 4, 1024, {"autocast": True}),
    "qwen3-4b-checkpoint": ("qwen3-4b", 4, 2048, {"checkpoint": True}),
    "moe-30b-6l": ("moe-30b-6l", 4, 2048, {}),
    "gpt2-autocast": ("gpt2", 16, 1024, {"autocast": True, "dropout": 0.0}),
    "gpt2-dropout-autocast": ("gpt2", 16, 1024, {"autocast": True, "dropout": 0.1}),
    "gemma3-1b": ("gemma3-1b", 4, 2048, {}),
    "llama-8b-adapters-autocast": ("llama-8b", 2, 2048, {"rank": 16, "autocast": True}),
    "llama-8b-adapters-autocast-checkpoint": ("llama-8b", 4, 2048, {"rank": 16, "autocast": True, "checkpoint": True}),
    "qwen3-8b-adapters": ("qwen3-8b", 2, 2048, {"rank": 16}),
}
ADAPTED = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Step:
    """A model with its optimizer."""

    def __init__(self, model, sequences, tokens, device, options):
        family, _, layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary, tied = MODELS[model]
        rate = options.get("dropout", 0.0)
        config = dict(
            hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
            head_dim=head_dim, vocab_size=vocabulary, tie_word_embeddings=tied, max_position_embeddings=131072,
            sliding_window=None, use_cache=False, attn_implementation=options.get("attention", "sdpa"),
        ) | OWN.get(model, {})
        if family == "GPT2":
            config |= dict(resid_pdrop=rate, embd_pdrop=rate, attn_pdrop=rate)
        else:
            config |= dict(intermediate_size=ffn)
        config = getattr(transformers, f"{family}Config")(**config)
        self.autocast = options.get("autocast", False)
        dtype = torch.float32 if self.autocast and not options.get("rank") else torch.bfloat16
        with torch.device(device):
            self.model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).train()
        if options.get("rank"):
            import peft
            adapters = peft.LoraConfig(r=options["rank"], target_modules=ADAPTED, task_type="CAUSAL_LM")
            self.model = peft.get_peft_model(self.model, adapters)
            if options.get("checkpoint"):
                self.model.enable_input_require_grads()
        if options.get("checkpoint"):
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.trained = [p for p in self.model.parameters() if p.requires_grad]
        how = {"foreach": True} if options.get("optimizer") == "for-each" else {"fused": device == "cuda"}
        self.optimizer = torch.optim.AdamW(self.trained, lr=1e-5, **how)
        self.ids = torch.randint(0, vocabulary, (sequences, tokens), device=device)
        self.accumulation, self.device = options.get("accumulation", 1), device

    def __call__(self):
        for _ in range(self.accumulation):
            with torch.autocast(self.device, torch.bfloat16) if self.autocast else contextlib.nullcontext():
                loss = self.model(input_ids=self.ids, labels=self.ids).loss
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def taken_gib(device):
    if device != "cuda":
        return None
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2**30


def measure(case, device, name, host, profile):
    model, sequences, tokens, options = CASES[case]
    step, seconds = Step(model, sequences, tokens, device, options), []
    for _ in range(3):
        step()
    wait(device)
    for _ in range(5):
        start = time.perf_counter()
        step()
        wait(device)
        seconds.append(time.perf_counter() - start)
    if profile:
        with torch.profiler.profile() as profiler:
            step()
            wait(device)
        path = Path(profile) / f"{case}.json"
        profiler.export_chrome_trace(str(path))
        subprocess.run(["gzip", "-f", str(path)], check=True)
    return row(case, name, host, statistics.median(seconds), taken_gib(device))


def row(case, device, host, seconds, memory):
    """The columns of `stepsim score`."""
    key, sequences, tokens, options = CASES[case]
    _, model, layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary, _ = MODELS[key]
    narrow = not options.get("autocast")
    state = ", all state in bf16" if narrow or options.get("rank") else ""
    how = "for-each" if options.get("optimizer") == "for-each" else "fused"
    columns = dict(
        id=f"one-gpu/{case}", kind="step", source="one-gpu", device=device, n_devices=1, devices_per_node=1,
        model=model, layers=layers, hidden=hidden, ffn=ffn, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
        vocab=vocabulary, seq=tokens, mbs_seqs=sequences, gbs_seqs=sequences * options.get("accumulation", 1),
        tp=1, pp=1, dp=1, sharding="none", recompute="full" if options.get("checkpoint") else "none",
        precision="bf16, without autocast" if options.get("rank") and narrow else "bf16",
        optimizer=f"AdamW, {how}{state}",
        software=f"Hugging Face transformers {transformers.__version__.rsplit('.', 1)[0]}, "
        f"PyTorch {torch.__version__.rsplit('.', 1)[0]}",
        step_time_s=seconds, peak_mem_gib=memory, lora_rank=options.get("rank"),
        attn_kernel="eager" if options.get("attention") == "eager" else None, dropout=options.get("dropout"), host=host,
        **COLUMNS.get(key, {}),
    )
    return {column: value for column, value in columns.items() if value is not None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="-", help="where rows go; - is the terminal")
    parser.add_argument("--only", action="append", choices=CASES, help="a case; again for more")
    parser.add_argument("--device", default="h200-sxm", help="the device's name in the catalogue (stepsim list devices)")
    parser.add_argument("--host", help="what the host is, as in \"virtual machine of 16 Xeon cores\"")
    parser.add_argument("--profile", help="also write a profile of one step of each case into this folder")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    out = sys.stdout if args.out == "-" else open(args.out, "w")
    for case in args.only or CASES:
        print(json.dumps(measure(case, device, args.device, args.host, args.profile)), file=out, flush=True)
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
