//! The kinds of files that can be imported, each a command.

use std::path::PathBuf;

use super::super::outputs::WRITTEN;
use super::{hugging_face, nccl_tests, nvidia_smi, recipe};

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
    /// A Hugging Face config.json as a model
    #[command(name = "hf", visible_alias = "hugging-face")]
    HuggingFace(hugging_face::Args),
    /// Outputs of nccl-tests as a table of measured collectives, for `collectives` of a topology file
    NcclTests(nccl_tests::Args),
    /// How the GPUs of a node are joined (`nvidia-smi topo -m`, `rocm-smi --showtopo`, NCCL's topology file) as a
    /// machine
    #[command(alias = "rocm-smi", alias = "nccl-topology")]
    NvidiaSmi(nvidia_smi::Args),
    #[command(flatten)]
    Format(recipe::FormatImport),
}
