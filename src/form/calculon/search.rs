//! The best execution of a model on a machine, by trying all there are.
//!
//! The space is taken from Calculon's own `llm-optimal-execution`: tensor parallelism divides width, heads and
//! processors, pipeline parallelism divides blocks and the rest, and every option that the closed form knows is on and
//! off wherever it means anything. The batch is the largest multiple of the data parallelism that is not above the one
//! asked for. The best execution processes most sequences a second; of equals the first in the order of the space,
//! whatever the threads.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::closed_form::{Quirks, estimate};
use super::files::{
    Application, AttentionProjections, Calculon, CalculonOverlap, Datatype, Execution, FileNames, Recompute,
    System, TensorComm,
};
use stepsim_core::pool;
use stepsim_step::spec::SpecError;

/// The space that is searched.
#[derive(Clone, Debug)]
pub struct ExecutionSpace {
    /// The model.
    pub app: Application,
    /// The machine.
    pub sys: System,
    /// The names of the files in errors.
    pub names: FileNames,
    /// Processors that an execution uses, all of them.
    pub processors: u64,
    /// Most sequences of a step.
    pub batch: u64,
    /// Number format.
    pub datatype: Datatype,
    /// Values that fields of the execution are kept to.
    pub only: BTreeMap<String, Vec<Value>>,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExecutionRanking {
    /// Executions that were tried.
    pub executions: u64,
    /// Of these, how many are allowed and fit in memory.
    pub fit: u64,
    /// The best, best first.
    pub ranking: Vec<BestExecution>,
}

/// An execution that fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BestExecution {
    /// Sequences a second.
    pub sample_rate: f64,
    /// The strategy.
    pub execution: Execution,
    /// All outputs of the closed form.
    pub outputs: Map<String, Value>,
}

impl BestExecution {
    /// An output of the closed form by Calculon's name; 0 of one that there is not.
    pub fn output(&self, name: &str) -> f64 {
        self.outputs.get(name).and_then(Value::as_f64).unwrap_or_default()
    }
}

/// Tries all executions of a space and ranks the best `top`. Pieces are shared out to threads; `progress` is told how
/// many of how many are done.
///
/// # Errors
/// No execution can be made of the values that fields are kept to, or a field is unknown.
pub fn search(
    space: &ExecutionSpace,
    quirks: Quirks,
    top: usize,
    threads: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ExecutionRanking, SpecError> {
    space.check()?;
    let pieces = space.pieces();
    let mut found = ExecutionRanking::default();
    let mut all: Vec<Option<ExecutionRanking>> = vec![None; pieces.len()];
    let mut done = 0;
    pool::each(pieces.len(), threads, &|i| space.of_piece(&pieces[i], quirks, top), &mut |i, of_piece| {
        all[i] = Some(of_piece);
        done += 1;
        progress(done, pieces.len() as u64);
        ControlFlow::Continue(())
    });
    for of_piece in all.into_iter().flatten() {
        found.executions += of_piece.executions;
        found.fit += of_piece.fit;
        of_piece.ranking.into_iter().for_each(|best| insert(&mut found.ranking, best, top));
    }
    if found.executions == 0 {
        return Err(SpecError::file(&space.names.application, "no execution can be made")
            .value(format!("{} processors, a batch of {}", space.processors, space.batch))
            .allowed("processors that tensor × pipeline × data parallelism can make up, with data at most the batch")
            .hint("give other processors, a larger batch, or keep fewer fields to values"));
    }
    Ok(found)
}

/// Puts `new` behind all that are as good.
fn insert(ranking: &mut Vec<BestExecution>, new: BestExecution, top: usize) {
    let place = ranking.partition_point(|known| known.sample_rate >= new.sample_rate);
    ranking.insert(place, new);
    ranking.truncate(top);
}

/// On and off where an option means anything, else off.
fn flag(possible: bool) -> Vec<bool> {
    if possible { vec![true, false] } else { vec![false] }
}

/// Each execution with each value of a field, the values fastest.
fn with_each<T: Copy>(all: &[Execution], values: &[T], set: fn(&mut Execution, T)) -> Vec<Execution> {
    let with = |execution: &Execution, value: T| {
        let mut execution = execution.clone();
        set(&mut execution, value);
        execution
    };
    all.iter()
        .flat_map(|execution| values.iter().map(|value| with(execution, *value)).collect::<Vec<_>>())
        .collect()
}

/// All divisors, smallest first.
fn divisors(n: u64) -> Vec<u64> {
    let low = (1..).take_while(|d| d * d <= n).filter(|d| n.is_multiple_of(*d));
    let mut all: Vec<u64> = low.flat_map(|d| [d, n / d]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl ExecutionSpace {
    /// Fields of an execution that may be kept to values.
    fn check(&self) -> Result<(), SpecError> {
        let known = serde_json::to_value(self.any()).unwrap_or_default();
        let fields: Vec<&str> =
            known.as_object().into_iter().flat_map(|map| map.keys()).map(String::as_str).collect();
        let fixed = ["num_procs", "batch_size", "datatype"];
        match self
            .only
            .keys()
            .find(|field| !fields.contains(&field.as_str()) || fixed.contains(&field.as_str()))
        {
            None => Ok(()),
            Some(wrong) => Err(SpecError::file("--fix", "no field of an execution that a search chooses")
                .value(wrong.clone())
                .allowed(
                    fields.into_iter().filter(|field| !fixed.contains(field)).collect::<Vec<_>>().join(", "),
                )),
        }
    }

    /// An execution for its fields alone.
    fn any(&self) -> Execution {
        Execution {
            num_procs: self.processors,
            tensor_par: 1,
            pipeline_par: 1,
            data_par: self.processors,
            tensor_par_net: 0,
            pipeline_par_net: 0,
            data_par_net: 0,
            batch_size: self.batch,
            microbatch_size: 1,
            datatype: self.datatype,
            fused_activation: true,
            attention_type: AttentionProjections::Multihead,
            activation_recompute: Recompute::None,
            pipeline_interleaving: 1,
            optimizer_sharding: false,
            tensor_par_comm_type: TensorComm::Ar,
            tensor_par_overlap: CalculonOverlap::None,
            seq_par_ag_redo: false,
            data_par_overlap: false,
            weight_offload: false,
            activations_offload: false,
            optimizer_offload: false,
            training: true,
        }
    }

    /// Those of `usual` that a field is kept to.
    fn kept<T: Serialize>(&self, field: &str, usual: Vec<T>) -> Vec<T> {
        let Some(only) = self.only.get(field) else { return usual };
        let as_json = |value: &T| serde_json::to_value(value).unwrap_or_default();
        usual.into_iter().filter(|value| only.contains(&as_json(value))).collect()
    }

    /// The values that a field is given, or the usual one where it is given none.
    fn given<T: DeserializeOwned>(&self, field: &str, usual: T) -> Vec<T> {
        let Some(only) = self.only.get(field) else { return vec![usual] };
        only.iter().filter_map(|value| serde_json::from_value(value.clone()).ok()).collect()
    }

    /// The parts of the space that threads take, each by what its executions have in common.
    fn pieces(&self) -> Vec<Execution> {
        let mut pieces = Vec::new();
        let blocks = self.app.num_blocks;
        let splits = |t: &u64| self.app.hidden.is_multiple_of(*t) && self.app.attn_heads.is_multiple_of(*t);
        let tensor = divisors(self.processors).into_iter().filter(splits).collect();
        for tensor_par in self.kept("tensor_par", tensor) {
            let rest = self.processors / tensor_par;
            let pipeline = divisors(rest).into_iter().filter(|p| blocks.is_multiple_of(*p)).collect();
            for pipeline_par in self.kept("pipeline_par", pipeline) {
                let data_par = rest / pipeline_par;
                let batch_size = self.batch - self.batch % data_par;
                if batch_size == 0 || self.kept("data_par", vec![data_par]).is_empty() {
                    continue;
                }
                let layout = Execution { tensor_par, pipeline_par, data_par, batch_size, ..self.any() };
                let chunks = if pipeline_par == 1 { vec![1] } else { divisors(blocks / pipeline_par) };
                let chunks = self.kept("pipeline_interleaving", chunks);
                let all = with_each(&[layout], &chunks, |e, chunks| e.pipeline_interleaving = chunks);
                let recompute = vec![Recompute::Full, Recompute::AttnOnly, Recompute::None];
                let recompute = self.kept("activation_recompute", recompute);
                let all = with_each(&all, &recompute, |e, kind| e.activation_recompute = kind);
                let sharding = self.kept("optimizer_sharding", flag(data_par > 1));
                let all = with_each(&all, &sharding, |e, on| e.optimizer_sharding = on);
                let comm = vec![TensorComm::Ar, TensorComm::P2pRsAg, TensorComm::RsAg];
                let comm = self.kept("tensor_par_comm_type", comm);
                pieces.extend(with_each(&all, &comm, |e, comm| e.tensor_par_comm_type = comm));
            }
        }
        pieces
    }

    /// All executions of a piece.
    fn of_piece(&self, piece: &Execution, quirks: Quirks, top: usize) -> ExecutionRanking {
        let mut found = ExecutionRanking::default();
        let mut case: Option<Calculon> = None;
        for execution in self.software(piece) {
            found.executions += 1;
            let allowed = match &mut case {
                Some(case) => case.set_execution(execution).is_ok(),
                None => {
                    let new =
                        Calculon::new(self.names.clone(), self.app.clone(), execution, self.sys.clone());
                    case = new.ok();
                    case.is_some()
                }
            };
            let Some(case) = case.as_ref().filter(|_| allowed) else { continue };
            let estimate = estimate(case, quirks);
            if estimate.fits().is_err() {
                continue;
            }
            found.fit += 1;
            let sample_rate = estimate.efficiency.sample_rate;
            if found.ranking.len() == top
                && found.ranking.last().is_some_and(|last| last.sample_rate >= sample_rate)
            {
                continue;
            }
            let outputs = estimate.outputs().to_json();
            insert(
                &mut found.ranking,
                BestExecution { sample_rate, execution: case.exe().clone(), outputs },
                top,
            );
        }
        found
    }

    /// Overlaps, offloads, micro-batches and networks of a layout.
    fn software(&self, start: &Execution) -> Vec<Execution> {
        let full = start.activation_recompute == Recompute::Full;
        let redo = start.tensor_par_comm_type == TensorComm::RsAg && !full;
        let tiled = if start.tensor_par > 1 {
            vec![CalculonOverlap::None, CalculonOverlap::Ring, CalculonOverlap::Pipe]
        } else {
            vec![CalculonOverlap::None]
        };
        let away = self.sys.mem2.capacity_gib > 0.0;
        let of = |field: &str, possible: bool| self.kept(field, flag(possible));
        let tokens = |b: &u64| (b * self.app.seq_size).is_multiple_of(start.tensor_par);
        let micro = divisors(start.batch_size / start.data_par).into_iter().filter(tokens).collect();
        let networks = |field: &str, degree: u64| {
            let count = if degree > 1 { self.sys.networks.len() as u64 } else { 1 };
            self.kept(field, (0..count).collect())
        };
        let all = with_each(std::slice::from_ref(start), &of("seq_par_ag_redo", redo), |e, on| {
            e.seq_par_ag_redo = on
        });
        let all =
            with_each(&all, &of("data_par_overlap", start.data_par > 1), |e, on| e.data_par_overlap = on);
        let tiled = self.kept("tensor_par_overlap", tiled);
        let all = with_each(&all, &tiled, |e, overlap| e.tensor_par_overlap = overlap);
        let all = with_each(&all, &of("weight_offload", away), |e, on| e.weight_offload = on);
        let all =
            with_each(&all, &of("activations_offload", away && !full), |e, on| e.activations_offload = on);
        let all = with_each(&all, &of("optimizer_offload", away), |e, on| e.optimizer_offload = on);
        let all = with_each(&all, &self.given("fused_activation", true), |e, on| e.fused_activation = on);
        let all = with_each(&all, &self.given("training", true), |e, on| e.training = on);
        let attention = self.given("attention_type", AttentionProjections::Multihead);
        let all = with_each(&all, &attention, |e, kind| e.attention_type = kind);
        let all = with_each(&all, &self.kept("microbatch_size", micro), |e, size| e.microbatch_size = size);
        let tensor = networks("tensor_par_net", start.tensor_par);
        let all = with_each(&all, &tensor, |e, network| e.tensor_par_net = network);
        let pipeline = networks("pipeline_par_net", start.pipeline_par);
        let all = with_each(&all, &pipeline, |e, network| e.pipeline_par_net = network);
        let data = networks("data_par_net", start.data_par);
        with_each(&all, &data, |e, network| e.data_par_net = network)
    }
}
