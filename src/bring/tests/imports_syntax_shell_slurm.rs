use stepsim_bring::imports::syntax::shell::slurm::{devices, variables};

#[test]
fn a_job_says_its_nodes_and_devices() {
    let of = |text: &str| devices(&variables(text, None));
    assert_eq!(of("#!/bin/bash\n#SBATCH --nodes=8\n#SBATCH --gpus-per-node=8\n"), Some(64));
    assert_eq!(of("#SBATCH -N 4\n#SBATCH --gres=gpu:h100:4"), Some(16));
    assert_eq!(of("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node 8 # a comment"), Some(16));
    assert_eq!(of("#SBATCH --nodes=<how many>\n#SBATCH --ntasks-per-node=8"), None);
    assert_eq!(of("# SBATCH --nodes=2\necho --nodes=4"), None);
}
