//! Validation of the modules that a step uses.

use super::{ModuleParallelism, OffloadSpec, OptimizerKind, PointToPoint, UsedModule, WorkloadSpec};
use crate::model::ModelSpec;
use crate::problem::Problems;
use stepsim_schedule::{BackwardSplit, ScheduleChoice};

impl WorkloadSpec {
    pub(super) fn check_modules(&self, p: &mut Problems, model: &ModelSpec) {
        for name in self.modules.keys() {
            if model.modules.iter().any(|module| module.name == *name) {
                continue;
            }
            let known: Vec<&str> = model.modules.iter().map(|module| module.name.as_str()).collect();
            let allowed = match known[..] {
                [] => format!("nothing: {} has no modules", model.name),
                _ => format!("modules of {}: {}", model.name, known.join(", ")),
            };
            let hint = "`stepsim schema model` lists their fields";
            p.add(format!("modules.{name}"), format!("{name:?}"), allowed, hint);
        }
        let needed =
            model.modules.iter().filter(|m| m.per_sequence > 0 && !self.modules.contains_key(&m.name));
        for module in needed {
            let allowed = format!("its use: {} reads nothing without it", model.name);
            let hint = format!("modules.{}.items={}", module.name, module.per_sequence);
            p.add(format!("modules.{}", module.name), "nothing", allowed, hint);
        }
        let used = self.used_modules(model);
        let before = p.len();
        used.iter().for_each(|module| self.check_module(p, module));
        self.check_stages(p, model, &used);
        used.iter().for_each(|module| self.check_devices(p, module));
        used.iter().for_each(|module| self.check_bubbles(p, module, used.len()));
        if model.has_cross() {
            self.check_cross(p, &used);
        } else if p.len() == before {
            self.check_tokens(p, model, &used);
        }
        if self.trains_modules() && self.optimizer.kind == OptimizerKind::Muon {
            let hint = "or freeze the modules: modules.NAME.trained nothing";
            p.add("optimizer.kind", "\"muon\"", "another optimizer where modules are trained", hint);
        }
    }

    fn check_module(&self, p: &mut Problems, module: &UsedModule<'_>) {
        let at = format!("modules.{}", module.spec.name);
        let before = p.len();
        self.check_items(p, module, &at);
        p.size(format!("{at}.sequence"), module.patches(), 10_000_000);
        if p.len() > before {
            return;
        }
        let merge = module.spec.merge;
        if !module.patches().is_multiple_of(merge) {
            let allowed = format!("a multiple of {merge}, the patches that become one token");
            p.add(format!("{at}.sequence"), module.patches(), allowed, "");
        }
        if let Some(recompute) = &module.usage.recompute {
            recompute.check(p, &format!("{at}.recompute"), module.spec.layers);
        }
        let (field, tensor) = match module.usage.devices {
            Some(own) => (format!("{at}.devices.tensor"), own.tensor),
            None => ("parallelism.tensor".to_string(), self.parallelism.tensor),
        };
        if module.usage.devices.is_some() || module.usage.parallelism == ModuleParallelism::Tensor {
            let widths = module
                .spec
                .projector
                .matrices
                .chunks_exact(2)
                .map(|pair| ("a projector's width", pair[0][1]));
            let cut = [("heads", module.spec.heads), ("ffn", module.spec.ffn)].into_iter().chain(widths);
            for (what, value) in cut.filter(|(_, value)| !value.is_multiple_of(tensor.max(1))) {
                let allowed = format!("a divisor of the {what} ({value}) of module {}", module.spec.name);
                p.add(&field, tensor, allowed, format!("or set {at}.parallelism to data"));
            }
        }
    }

    /// Stages that a module has to itself.
    fn check_stages(&self, p: &mut Problems, model: &ModelSpec, used: &[UsedModule<'_>]) {
        let pipeline = &self.parallelism.pipeline;
        let staged: Vec<_> = used.iter().filter_map(|m| Some((m.spec, m.usage.own_stages()?))).collect();
        for (i, (module, stages)) in staged.iter().enumerate() {
            let at = format!("modules.{}.stages", module.name);
            let most = pipeline.size.saturating_sub(1).min(module.layers);
            if i > 0 {
                let hint = "the others share the first stage of the language model";
                p.add(&at, stages, "stages for one module", hint);
            } else if pipeline.size < 2 {
                p.add(&at, stages, "nothing with one pipeline rank", "raise parallelism.pipeline.size");
            } else if !(1..=most).contains(stages) {
                let range = if most > 1 { format!("1 to {most}") } else { "1".into() };
                let allowed = format!("{range}: a layer on each, and a rank left for the language model");
                p.add(&at, stages, allowed, "raise parallelism.pipeline.size, or leave it out");
            } else if model.table_at_both_ends() && pipeline.turns() {
                let hint = "schedule interleaved, or a model without tied embeddings and prediction modules";
                p.add(
                    &at,
                    stages,
                    "a schedule whose stages go one way, where both ends read the table",
                    hint,
                );
            }
            let split = pipeline.layer_split.iter().flatten().take(*stages as usize);
            if let Some(layers) = split.copied().find(|layers| *layers > 0) {
                let allowed = format!("0 in the first {stages} entries, the stages of {}", module.name);
                p.add("parallelism.pipeline.layer_split", layers, allowed, "an entry for every stage");
            }
        }
    }

    /// Devices that a module has to itself.
    fn check_devices(&self, p: &mut Problems, module: &UsedModule<'_>) {
        let Some(own) = module.usage.devices else { return };
        let (par, at) = (&self.parallelism, format!("modules.{}.devices", module.spec.name));
        p.size(format!("{at}.tensor"), own.tensor, 1 << 20);
        p.size(format!("{at}.data"), own.data, 1 << 20);
        if let Some(stages) = module.usage.stages.filter(|stages| *stages != 1) {
            let hint = "one stage has devices of its own";
            p.add(&at, format!("beside stages {stages}"), "stages 1, or none given", hint);
        }
        let Some(data) = par.data else {
            let hint = "how many replicas of the language model the module serves";
            p.add("parallelism.data", "nothing", format!("a number beside {at}"), hint);
            return;
        };
        let stage = par.tensor.saturating_mul(par.context.size).saturating_mul(data);
        let divide = |a: u64, b: u64| a > 0 && b > 0 && (a.is_multiple_of(b) || b.is_multiple_of(a));
        if !divide(own.ranks(), stage) || !divide(own.data, data) {
            let value = format!("tensor {} × data {}", own.tensor, own.data);
            let allowed = format!(
                "ranks that divide the {stage} of a language stage or are a multiple of them, and a data \
                 degree that does so with {data}"
            );
            p.add(&at, value, allowed, "each rank then has as many messages as any other");
        }
        let beside = [
            ("parallelism.rank_map", par.rank_map.is_some()),
            ("parallelism.pipeline.chunks", par.pipeline.chunks() > 1),
            ("a schedule that turns round", par.pipeline.turns()),
            ("documents", self.documents.is_some()),
            (if module.usage.counts.is_some() { "counts" } else { "drawn" }, module.is_uneven()),
        ];
        for (what, _) in beside.into_iter().filter(|other| other.1) {
            let hint = format!("or give {} stages of its own", module.spec.name);
            p.add(&at, format!("beside {what}"), format!("no {what}"), hint);
        }
    }

    /// A module in bubbles: which steps have them, and know them.
    fn check_bubbles(&self, p: &mut Problems, module: &UsedModule<'_>, modules: usize) {
        if !module.usage.bubbles {
            return;
        }
        let (at, pipeline) = (format!("modules.{}.bubbles", module.spec.name), &self.parallelism.pipeline);
        let whole = match pipeline.choice() {
            ScheduleChoice::Named(schedule) => {
                let facts = schedule.facts();
                facts.backward == BackwardSplit::Whole
                    && facts.directions == 1
                    && !facts.pairs
                    && !facts.searched
            }
            ScheduleChoice::File => false,
        };
        let merged = self.expert.overlap.pairs();
        let beside = [
            ("stages", module.usage.stages.is_some(), "a place of its own is another choice"),
            ("devices", module.usage.devices.is_some(), "a place of its own is another choice"),
            ("one pipeline rank", pipeline.size < 2, "there are no bubbles: raise parallelism.pipeline.size"),
            ("another module", modules > 1, "leave it out, or the other"),
            (
                "such a schedule",
                !whole || pipeline.chunks() > 1,
                "schedule 1f1b or gpipe, whole backward passes of one chunk",
            ),
            ("such transfers", pipeline.p2p != PointToPoint::Async, "set parallelism.pipeline.p2p to async"),
            ("merged micro-batches", merged, "set expert.overlap to another kind"),
            ("unequal numbers of images", module.is_uneven(), "give items, equally many in each sequence"),
            ("documents", self.documents.is_some(), "give sequences of one document each"),
            (
                "gradients that are cut",
                self.reduces_every_micro_batch(),
                "sharding kind none or zero1, reduced once a step",
            ),
            ("offload", self.offload != OffloadSpec::default(), "leave offload out"),
        ];
        for (what, _, hint) in beside.into_iter().filter(|other| other.1) {
            p.add(&at, format!("true beside {what}"), "false", hint);
        }
    }

    /// One way to say how many images there are.
    fn check_items(&self, p: &mut Problems, module: &UsedModule<'_>, at: &str) {
        let usage = module.usage;
        let ways = [
            ("items", usage.items.is_some()),
            ("counts", usage.counts.is_some()),
            ("drawn", usage.drawn.is_some()),
        ];
        let given: Vec<&str> = ways.into_iter().filter(|way| way.1).map(|way| way.0).collect();
        if given.len() != 1 {
            let value = if given.is_empty() { "none".into() } else { given.join(" and ") };
            p.add(at, value, "one of items, counts and drawn", "items is the images of each sequence, as 4");
        }
        p.size(format!("{at}.items"), usage.items, 1_000_000);
        if usage.counts.as_ref().is_some_and(|counts| counts.iter().all(|n| *n == 0)) {
            let hint = "leave the module out for text alone";
            p.add(format!("{at}.counts"), "no images", "a list with an image", hint);
        }
        if let Some(drawn) = usage.drawn {
            p.range(format!("{at}.drawn.median"), drawn.median, 1.0, 1e6);
            p.range(format!("{at}.drawn.sigma"), drawn.sigma, 0.0, 10.0);
            p.size(format!("{at}.drawn.most"), drawn.most, 1_000_000);
        }
        if module.is_uneven() && self.documents.is_some() {
            let hint = "give every sequence equally many images: items";
            p.add("documents", "documents beside uneven images", "one of them", hint);
        }
    }

    /// Layers that attend to images see the images of their sequence; all sequences have equally many.
    fn check_cross(&self, p: &mut Problems, used: &[UsedModule<'_>]) {
        for module in used.iter().filter(|module| module.is_uneven()) {
            let way = if module.usage.counts.is_some() { "counts" } else { "drawn" };
            let hint = "the released code pads all sequences to the images of the fullest: give that number as items";
            let at = format!("modules.{}.{way}", module.spec.name);
            p.add(at, "unequal numbers of images", "items in a model whose layers attend to images", hint);
        }
        if self.documents.is_some() && !used.is_empty() {
            let allowed = "no documents beside images in a model whose layers attend to these";
            p.add("documents", "documents", allowed, "give sequences of one document each: sequence");
        }
    }

    /// Tokens of images take places in the sequence.
    fn check_tokens(&self, p: &mut Problems, model: &ModelSpec, used: &[UsedModule<'_>]) {
        let sequence = self.sequence(model);
        let mut tokens = 0u64;
        for module in used {
            let own = module.most_items().saturating_mul(module.tokens());
            tokens = tokens.saturating_add(own);
            let way = if module.is_uneven() { "counts or drawn.most" } else { "items" };
            if tokens > sequence {
                let items = module.most_items();
                let allowed = format!("items whose tokens fit in a sequence of {sequence}");
                let hint = format!("{items} items of {} tokens are {own}", module.tokens());
                p.add(format!("modules.{}.{way}", module.spec.name), items, allowed, hint);
                return;
            }
        }
    }
}
