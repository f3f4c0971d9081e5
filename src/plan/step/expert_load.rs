//! How unevenly tokens reach the ranks that hold experts: λ, the tokens of the fullest rank over the mean.
//!
//! All-to-all and grouped GEMMs end with the fullest rank, so both are priced with its share: λ times the even one
//! (at most the capacity factor; what is above it is dropped).

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::Value;

use stepsim_price::moe::imbalance;
use stepsim_spec::SpecError;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{ExpertBalance, WorkloadSpec};

/// λ of every layer, or one for all; empty where there are no experts.
///
/// # Errors
/// The file of counts cannot be read or does not fit the model.
pub fn of_layers(workload: &WorkloadSpec, model: &ModelSpec) -> Result<Vec<f64>, SpecError> {
    let Some(moe) = &model.moe else { return Ok(Vec::new()) };
    let load = &workload.expert_load;
    Ok(match load.balance {
        ExpertBalance::Even => vec![1.0],
        ExpertBalance::Factor => vec![load.max_over_mean],
        ExpertBalance::Spread => vec![imbalance::fullest(load.rows_cv, workload.parallelism.expert)],
        ExpertBalance::Seeded => {
            let mut rng = ChaCha8Rng::seed_from_u64(load.seed);
            let above = load.max_over_mean - 1.0;
            (0..model.layers).map(|_| 1.0 - above * (1.0 - rng.random::<f64>()).ln()).collect()
        }
        ExpertBalance::File => {
            let wrong = |problem: String| {
                SpecError::at("expert_load.counts_file", problem)
                    .allowed("a JSON list of token counts, one for each expert, or a list of such lists")
                    .hint("one list for every layer with experts, or one for all of them")
            };
            let file = load.counts_file.as_ref().ok_or_else(|| wrong("no counts are given".into()))?;
            let content = file.content().map_err(|e| e.under("expert_load.counts_file"))?;
            let counts = counts(content).map_err(wrong)?;
            let expert_layers: Vec<u64> = (0..model.layers).filter(|&l| model.has_experts(l)).collect();
            if counts.len() != 1 && counts.len() != expert_layers.len() {
                return Err(wrong(format!(
                    "{} lists for {} layers with experts",
                    counts.len(),
                    expert_layers.len()
                )));
            }
            let of_list =
                |list: &Vec<f64>| fullest(list, moe.experts, workload.parallelism.expert).map_err(wrong);
            let each: Vec<f64> = counts.iter().map(of_list).collect::<Result<_, _>>()?;
            if each.len() == 1 {
                return Ok(each);
            }
            let mut by_layer = vec![1.0; model.layers as usize];
            expert_layers.iter().zip(each).for_each(|(l, load)| by_layer[*l as usize] = load);
            by_layer
        }
    })
}

/// The lists of a file.
fn counts(content: &Value) -> Result<Vec<Vec<f64>>, String> {
    if let Ok(one) = Vec::<f64>::deserialize(content) {
        return Ok(vec![one]);
    }
    Vec::deserialize(content).map_err(|e| e.to_string())
}

/// Tokens of the fullest of `ranks` ranks over the mean; experts lie on ranks in runs.
fn fullest(counts: &[f64], experts: u64, ranks: u64) -> Result<f64, String> {
    let total: f64 = counts.iter().sum();
    if counts.len() as u64 != experts {
        return Err(format!("{} counts for {experts} experts", counts.len()));
    }
    if counts.iter().any(|c| !c.is_finite() || *c < 0.0) || total <= 0.0 || !total.is_finite() {
        return Err("counts are numbers from 0 with a sum above 0".into());
    }
    let run = (experts / ranks.max(1)).max(1) as usize;
    let most = counts.chunks(run).map(|c| c.iter().sum::<f64>()).fold(0.0, f64::max);
    Ok(most * counts.len().div_ceil(run) as f64 / total)
}
