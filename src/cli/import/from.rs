//! The kinds of files that can be imported, each a command.

use std::path::PathBuf;

use super::super::outputs::WRITTEN;
use super::{chakra, hugging_face, nccl_tests, nvidia_smi, recipe};

#[derive(Debug, clap::Subcommand)]
pub(super) enum ImportSource {
    /// Calculon's application, execution and system file
    Calculon {
        /// The application file (.json or .json.gz)
        app: PathBuf,
        /// The execution file
        exe: PathBuf,
        /// The system file
        sys: PathBuf,
        /// The folder in which workload.json and topology.json are written; made if it is not there
        #[arg(short, long = "output", alias = "out", value_name = "DIR", help_heading = WRITTEN)]
        out: PathBuf,
    },
    /// PyTorch profiles of one step, of one or several ranks, as rank programs for `stepsim replay`
    Kineto {
        /// The profiles (.json or .json.gz)
        #[arg(required = true, value_name = "TRACE")]
        traces: Vec<PathBuf>,
        /// The step: N of `ProfilerStep#N` [default: the middle one]
        #[arg(long, value_name = "N")]
        step: Option<String>,
        /// The file that is written (.json or .json.gz)
        #[arg(short, long = "output", alias = "out", value_name = "FILE", help_heading = WRITTEN)]
        out: PathBuf,
    },
    /// Chakra execution traces, one a rank, with ASTRA-sim's files, as rank programs for `stepsim replay`
    Chakra(chakra::Args),
    /// A Hugging Face config.json as a model
    #[command(name = "hf", visible_alias = "hugging-face")]
    HuggingFace(hugging_face::Args),
    /// A pipeline schedule as torch writes it (CSV) as an order file, for `parallelism.pipeline.order_file` and
    /// `schedule --order`
    TorchSchedule {
        /// The file; `-` is the standard input
        file: PathBuf,
        /// The file that is written
        #[arg(short, long, value_name = "ORDER.json", default_value = "-", help_heading = WRITTEN)]
        output: PathBuf,
    },
    /// Outputs of nccl-tests as a table of measured collectives, for `collectives` of a topology file
    NcclTests(nccl_tests::Args),
    /// How the GPUs of a node are joined (`nvidia-smi topo -m`, `rocm-smi --showtopo`, NCCL's topology file) as a
    /// machine
    #[command(alias = "rocm-smi", alias = "nccl-topology")]
    NvidiaSmi(nvidia_smi::Args),
    /// Arguments of Megatron-LM or Megatron-Core (a shell line or script, or YAML) as a workload
    Megatron(recipe::Args),
    /// A NeMo 1 recipe (YAML) as a workload
    Nemo(recipe::Args),
    /// A NeMo 2 recipe (Python, `FILE.py:pretrain_recipe`) as a workload
    #[command(name = "nemo-2")]
    Nemo2(recipe::Args),
    /// A Megatron-Bridge recipe (Python), a script that runs one, or its configuration (YAML) as a workload
    MegatronBridge(recipe::Args),
    /// A torchtitan configuration (Python, `FILE.py:NAME`, or TOML) as a workload
    Torchtitan(recipe::Args),
    /// A DeepSpeed configuration (JSON) as a workload; it names no model: --model
    Deepspeed(recipe::Args),
    /// A nanotron configuration (YAML) as a workload
    Nanotron(recipe::Args),
    /// A MaxText configuration (YAML) as a workload
    Maxtext(recipe::Args),
    /// A script of Megatron-DeepSpeed (shell) as a workload
    MegatronDeepspeed(recipe::Args),
    /// A GPT-NeoX configuration (YAML) as a workload
    GptNeox(recipe::Args),
    /// A Primus experiment (YAML) as a workload
    Primus(recipe::Args),
    /// A FlagScale configuration (YAML) as a workload
    Flagscale(recipe::Args),
    /// A script of slime (shell), its training part, as a workload
    Slime(recipe::Args),
    /// A script of verl (shell), its training part, as a workload
    Verl(recipe::Args),
    /// A script of ms-swift (shell) as a workload
    MsSwift(recipe::Args),
    /// A script of transformers' Trainer, TRL or accelerate (shell, or YAML) as a workload
    HfTrainer(recipe::Args),
    /// A LLaMA-Factory configuration (YAML) as a workload
    LlamaFactory(recipe::Args),
    /// An Axolotl configuration (YAML) as a workload
    Axolotl(recipe::Args),
    /// A LitGPT configuration (YAML) as a workload
    Litgpt(recipe::Args),
    /// A torchtune recipe (YAML) as a workload
    Torchtune(recipe::Args),
    /// An LLM Foundry configuration (YAML) as a workload
    LlmFoundry(recipe::Args),
    /// A picotron configuration (JSON) as a workload
    Picotron(recipe::Args),
}
