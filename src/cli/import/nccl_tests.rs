//! `stepsim import nccl-tests`: measured collectives of a machine.

use std::path::PathBuf;

use super::super::collective::parse_op;
use super::super::outputs::WRITTEN;
use super::super::{Failure, say};
use crate::write::write_json;
use stepsim_bring::nccl_tests::{MissingHeadings, read};
use stepsim_fabric::collective::Op;
use stepsim_spec::{Collectives, Spec};

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Outputs of all_reduce_perf and its like, one each
    #[arg(required = true, value_name = "OUTPUT")]
    files: Vec<PathBuf>,
    /// The collective, where no line and no file name says it
    #[arg(long, value_parser = parse_op)]
    op: Option<Op>,
    /// Ranks, where no devices are listed
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u32>(2..=1 << 20))]
    ranks: Option<u32>,
    /// Nodes, where no hosts are listed
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u32>(1..=1 << 20))]
    nodes: Option<u32>,
    /// The times in place instead of those out of place
    #[arg(long)]
    in_place: bool,
    /// The file that is written
    #[arg(short, long, value_name = "COLLECTIVES.json", default_value = "-", help_heading = WRITTEN)]
    output: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Wrong files, or two of one collective on equal groups (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let asked =
        MissingHeadings { op: args.op, ranks: args.ranks, nodes: args.nodes, in_place: args.in_place };
    let mut table =
        Collectives { description: "Measured with nccl-tests".to_string(), ..Collectives::default() };
    for file in &args.files {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        table.measured.push(read(&crate::inputs::text(file)?, &name, &asked)?);
    }
    table.validate()?;
    write_json(&args.output, &table)?;
    if args.output.as_os_str() == "-" {
        return Ok(());
    }
    let mut text = String::new();
    for m in &table.measured {
        text +=
            &format!("{} on {} ranks of {} nodes: {} sizes\n", m.op.name(), m.ranks, m.nodes, m.points.len());
    }
    let file = args.output.display();
    say(&format!(
        "{text}wrote {file}\nnext: stepsim collective -t MACHINE --set collectives={file} --op {}\n",
        table.measured[0].op.name()
    ))
}
