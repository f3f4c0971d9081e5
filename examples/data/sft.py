"""A script of TRL, as people write them: quantised weights, adapters."""
import argparse
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-0.6B"
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=8)
args = parser.parse_args()

def tokenize(batch):
    return tok(batch["text"], truncation=True, max_length=512)

bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B-Base")
model = AutoModelForCausalLM.from_pretrained(MODEL, quantization_config=bnb)
lora = LoraConfig(r=32, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")

def main(length=2048):
    cfg = SFTConfig(output_dir="out", per_device_train_batch_size=2, gradient_accumulation_steps=args.accumulate,
        num_train_epochs=3, bf16=True, gradient_checkpointing=True, max_length=length, learning_rate=2e-4)
    SFTTrainer(model=model, args=cfg, peft_config=lora, train_dataset=load_dataset("trl-lib/Capybara", split="train")).train()

if __name__ == "__main__":
    main()
