//! The resources that a job script asks of Slurm (`#SBATCH --nodes=8`), as the variables that Slurm sets while it runs
//! (slurm.schedmd.com/sbatch.html), and those of SkyPilot, dstack and Kubeflow for the same.

use crate::imports::invocation::Counts;

/// Options of a job, with the variables that tell them.
const OPTIONS: [(&[&str], &[&str]); 3] = [
    (
        &["--nodes", "-N"],
        &["SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SKYPILOT_NUM_NODES", "DSTACK_NODES_NUM", "PET_NNODES"],
    ),
    (
        &["--gpus-per-node", "--gres"],
        &["SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE", "SKYPILOT_NUM_GPUS_PER_NODE", "DSTACK_GPUS_PER_NODE"],
    ),
    (&["--ntasks-per-node"], &["SLURM_NTASKS_PER_NODE"]),
];

/// Variables and their values, with the numbers of a whole job's tasks; on a machine that is asked for, its own.
pub fn variables(text: &str, asked: Option<Counts>) -> Vec<(String, String)> {
    let mut set: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let Some(option) = line.trim_start().strip_prefix("#SBATCH") else { continue };
        let mut words = option.split([' ', '\t', '=']).filter(|word| !word.is_empty());
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        let Some((_, variables)) = OPTIONS.iter().find(|(names, _)| names.contains(&name)) else { continue };
        // `gpu:8`, `gpu:h100:8`.
        let Some(number) = value.rsplit(':').next().filter(|n| n.parse::<u64>().is_ok()) else { continue };
        set.extend(variables.iter().map(|variable| ((*variable).to_string(), number.to_string())));
    }
    let of_others = ["SLURM_", "SKYPILOT_", "DSTACK_", "PET_NNODES"];
    let is_job = of_others.iter().any(|name| text.contains(name)) || !set.is_empty();
    if let Some(Counts { nodes, devices_per_node }) = asked.filter(|_| is_job) {
        for (at, number) in [(0, nodes), (1, devices_per_node)] {
            set.retain(|(name, _)| !OPTIONS[at].1.contains(&name.as_str()));
            set.extend(OPTIONS[at].1.iter().map(|variable| ((*variable).to_string(), number.to_string())));
        }
    }
    if is_job {
        let first = ["SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_JOBID"];
        set.extend(first.map(|name| (name.to_string(), "0".to_string())));
    }
    // Whoever starts a script on several nodes says where they meet: that changes no step.
    if asked.is_some_and(|counts| counts.nodes > 1) {
        set.extend([("MASTER_ADDR", "node0"), ("MASTER_PORT", "29500")].map(|(n, v)| (n.into(), v.into())));
    }
    let number = |name: &str| set.iter().find(|(n, _)| n == name)?.1.parse::<u64>().ok();
    if let Some((nodes, tasks)) = number("SLURM_NNODES").zip(number("SLURM_NTASKS_PER_NODE")) {
        set.push(("SLURM_NTASKS".into(), nodes.saturating_mul(tasks).to_string()));
    }
    set
}

/// Devices of the job: nodes times GPUs (or tasks, one a GPU) of each.
pub fn devices(variables: &[(String, String)]) -> Option<u64> {
    let Counts { nodes, devices_per_node } = counts(variables)?;
    Some(nodes.saturating_mul(devices_per_node)).filter(|devices| *devices > 1)
}

/// Nodes of a job and devices of each.
pub fn counts(variables: &[(String, String)]) -> Option<Counts> {
    let number = |name: &str| variables.iter().find(|(n, _)| n == name)?.1.parse::<u64>().ok();
    let devices_per_node = number("SLURM_GPUS_PER_NODE").or(number("SLURM_NTASKS_PER_NODE"))?;
    Some(Counts { nodes: number("SLURM_NNODES")?, devices_per_node })
}
