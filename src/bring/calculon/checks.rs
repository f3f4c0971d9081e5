//! Contradictions between the three files that no check of a workload or a machine would find.

use super::Calculon;
use stepsim_spec::SpecError;

type Check = Result<(), SpecError>;

impl Calculon {
    pub(super) fn check(&self) -> Check {
        self.processors()?;
        self.number_format()?;
        self.check_networks()
    }

    fn processors(&self) -> Check {
        let (t, p, d) = (self.exe.tensor_par, self.exe.pipeline_par, self.exe.data_par);
        let product = u128::from(t).saturating_mul(p.into()).saturating_mul(d.into());
        if u128::from(self.exe.num_procs) == product && product > 0 {
            return Ok(());
        }
        let problem =
            format!("{} is not tensor_par * pipeline_par * data_par = {t} * {p} * {d}", self.exe.num_procs);
        Err(SpecError::at("num_procs", problem)
            .allowed(product.max(1).to_string())
            .hint("change num_procs or one of the three")
            .in_file(&self.names.execution))
    }

    fn number_format(&self) -> Check {
        let key = self.exe.datatype.key();
        for (kind, table) in [("matrix", &self.sys.matrix), ("vector", &self.sys.vector)] {
            if !table.contains_key(key) {
                let known: Vec<&str> = table.keys().map(String::as_str).collect();
                return Err(SpecError::at(
                    "datatype",
                    format!("{key} is not in {kind} of {}", self.names.system),
                )
                .allowed(known.join(", "))
                .hint("choose a number format that the system has, or add its rates to the system")
                .in_file(&self.names.execution));
            }
        }
        Ok(())
    }

    fn check_networks(&self) -> Check {
        let (exe, tiers) = (&self.exe, self.sys.networks.len());
        for (name, net) in [
            ("tensor_par_net", exe.tensor_par_net),
            ("pipeline_par_net", exe.pipeline_par_net),
            ("data_par_net", exe.data_par_net),
        ] {
            if net >= tiers as u64 {
                let problem = format!("network {net} does not exist: {} has {tiers}", self.names.system);
                return Err(SpecError::at(name, problem)
                    .allowed(if tiers == 0 { "none".to_string() } else { format!("0 to {}", tiers - 1) })
                    .hint("tier 0 is the first of the system's networks")
                    .in_file(&self.names.execution));
            }
        }
        Ok(())
    }
}
