//! `stepsim estimate --rules`: rooflines, bounds by the machine's own axes, and the arithmetic of a whole run.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Failure, table};
use stepsim_core::ids::DeviceId;
use stepsim_form::analytic::Estimate;
use stepsim_form::analytic::bounds::{self, AxesRate};
use stepsim_form::analytic::roofline::{self, ClassIntensity, Ridge};
use stepsim_form::analytic::training::{self, LAWS};
use stepsim_price::model::flops::TokenFlops;
use stepsim_price::model::{ParameterCount, Shard};
pub use stepsim_read::analysis::table::grouped;
use stepsim_simulate::Inputs;
use stepsim_spec::{Device, Kind, SpecError, catalog, load};

/// Share of a step that a bubble may take, in the rule for micro-batches.
const BUBBLE: f64 = 0.05;

/// Everything that is said about a step on a machine.
pub(super) struct RulesOfThumb<'a> {
    inputs: &'a Inputs,
    estimate: &'a Estimate,
    ridges: Vec<Ridge>,
    classes: Vec<ClassIntensity>,
    axes: Vec<AxesRate>,
    /// C in FLOP/s.
    peak: f64,
    /// Tokens of the whole run.
    tokens: f64,
    /// Devices of the whole run.
    devices: f64,
}

impl<'a> RulesOfThumb<'a> {
    pub(super) fn new(
        inputs: &'a Inputs,
        estimate: &'a Estimate,
        tokens: Option<f64>,
        devices: Option<u64>,
    ) -> Result<Self, Failure> {
        let device = inputs.machine.device(DeviceId(0));
        let shard = Shard::new(&inputs.workload.value, &inputs.model);
        let active = ParameterCount::of(&inputs.model).active as f64;
        Ok(RulesOfThumb {
            inputs,
            estimate,
            ridges: roofline::ridges(device),
            classes: roofline::by_class(&inputs.model, &shard, device),
            axes: bounds::axes(&inputs.machine).map_err(Failure::input)?,
            peak: inputs.peak().0,
            tokens: tokens.unwrap_or(20.0 * active),
            devices: devices.unwrap_or_else(|| u64::from(inputs.machine.devices())) as f64,
        })
    }

    /// Bytes of compute, gathered weights and reduced gradients.
    fn bytes(&self) -> [f64; 3] {
        let w = &self.inputs.workload.value;
        [w.precision.compute.bytes(), w.weight_message_bytes(), w.gradient_message_bytes()]
    }

    pub(super) fn json(&self) -> Value {
        let [compute, weight, gradient] = self.bytes();
        let of_axes = |a: &AxesRate| {
            let alpha = self.peak / a.rate;
            let [forward, backward] = bounds::fsdp(alpha, weight, gradient);
            json!({
                "axes": a.axes, "group": a.group, "gathered_GBps": a.rate / 1e9, "in_turn_GBps": a.in_turn / 1e9,
                "data_parallel_tokens": bounds::data(alpha, gradient),
                "data_parallel_tokens_in_turn": bounds::data(self.peak / a.in_turn, gradient),
                "fsdp_forward_tokens": forward, "fsdp_backward_tokens": backward,
                "tensor_degree":
                    bounds::tensor(alpha, self.inputs.model.ffn as f64, self.inputs.model.gated_mlp, compute),
            })
        };
        let of_class = |c: &ClassIntensity| {
            let intensity = c.intensity();
            json!({"class": c.class.name(), "intensity_FLOP_per_byte": intensity, "bound": c.bound()})
        };
        let [share, causal] = self.attention_shares();
        let flops = self.run_flops();
        let active = self.estimate.rules.active_parameters;
        let loss = LAWS.map(|law| {
            json!({"law": law.name, "loss": law.loss(active, self.tokens), "optimum": law.optimum(flops)})
        });
        json!({
            "rooflines": self.ridges,
            "intensities": self.classes.iter().map(of_class).collect::<Vec<_>>(),
            "axes": self.axes.iter().map(of_axes).collect::<Vec<_>>(),
            "run": {
                "tokens": self.tokens, "flops_6PD": flops, "PFLOP_days": flops / training::PFLOP_DAY,
                "days": self.days(), "devices": self.devices, "tokens_a_device": self.estimate.tokens / self.devices,
                "energy_MWh": self.energy_mwh(), "attention_share": share, "attention_share_causal": causal,
                "loss": loss,
                "twenty_tokens_a_parameter": training::twenty(flops),
            },
        })
    }

    fn run_flops(&self) -> f64 {
        training::flops(self.estimate.rules.active_parameters, self.tokens)
    }
    /// Days on its devices, each at the estimated pace.
    fn days(&self) -> f64 {
        let share = f64::from(self.inputs.machine.devices()) / self.devices;
        self.tokens / self.estimate.tokens * self.estimate.terms.total() / 86_400.0 * share
    }
    /// The energy of the devices at their largest board power or its cap, where it is known.
    fn energy_mwh(&self) -> Option<f64> {
        let watts = self.inputs.machine.device(DeviceId(0)).draw_w(1.0)?;
        Some(watts * self.devices * self.days() * 24.0 / 1e6)
    }
    /// Attention over the products with weights, in full and under its mask.
    fn attention_shares(&self) -> [f64; 2] {
        let flops =
            TokenFlops::of(&self.inputs.model, self.inputs.workload.value.sequence(&self.inputs.model));
        [flops.mixing / flops.matrices, flops.mixing_causal / flops.matrices]
    }

    pub(super) fn text(&self) -> String {
        format!("{}\n{}\n{}\n{}", self.roofline_text(), self.class_text(), self.bound_text(), self.run_text())
    }

    fn roofline_text(&self) -> String {
        let mut rows = table(&[
            "roofline of the device",
            "peak TFLOP/s",
            "ridge FLOP/B",
            "rows above which a product computes",
        ]);
        add_ridges(&mut rows, "", &self.ridges);
        format!("{}\n", rows.trim_fmt())
    }

    fn class_text(&self) -> String {
        let mut rows = table(&["kernels of a layer", "FLOP/B", "ridge", "bound by"]);
        for c in self.classes.iter().filter(|c| c.flops > 0.0) {
            let ridge = c.ridge.map_or("-".to_string(), |r| format!("{r:.1}"));
            rows.add_row([
                c.class.name().to_string(),
                format!("{:.1}", c.intensity()),
                ridge,
                c.bound().to_string(),
            ]);
        }
        let others: Vec<&str> =
            self.classes.iter().filter(|c| c.flops == 0.0).map(|c| c.class.name()).collect();
        format!("{}\n bound by memory, with no products: {}\n", rows.trim_fmt(), others.join(", "))
    }

    fn bound_text(&self) -> String {
        let [compute, weight, gradient] = self.bytes();
        let model = &self.inputs.model;
        let (hidden, ffn) = (model.hidden as f64, model.ffn as f64);
        let mut rows = table(&[
            "axes of the machine",
            "gathers GB/s",
            "data: tokens a device",
            "FSDP forward",
            "backward",
            "tensor: degree up to",
            "stages one after the other",
        ]);
        for a in &self.axes {
            let alpha = self.peak / a.rate;
            let [forward, backward] = bounds::fsdp(alpha, weight, gradient);
            let in_turn = if a.in_turn < a.rate * (1.0 - 1e-9) {
                format!("data {:.0}", bounds::data(self.peak / a.in_turn, gradient))
            } else {
                String::new()
            };
            rows.add_row([
                a.axes.clone(),
                format!("{:.1}", a.rate / 1e9),
                format!("{:.1}", bounds::data(alpha, gradient)),
                format!("{forward:.1}"),
                format!("{backward:.1}"),
                format!("{:.1}", bounds::tensor(alpha, ffn, model.gated_mlp, compute)),
                in_turn,
            ]);
        }
        let mut out = format!("{}\n", rows.trim_fmt());
        let rate = |names: &str| self.axes.iter().find(|a| a.axes == names).map(|a| self.peak / a.rate);
        let names: Vec<&str> =
            self.axes.iter().filter(|a| a.axes.len() == 1).map(|a| a.axes.as_str()).collect();
        // Tensor parallelism takes the nearest axis of a machine of nodes, the last of a torus; FSDP the others
        // together.
        if let [first, .., last] = names[..] {
            let nodes = self.inputs.machine.fabric().nodes > 1;
            let (of_fsdp, of_tensor) =
                if nodes { (last.to_string(), first) } else { (names[..names.len() - 1].concat(), last) };
            if let (Some(x), Some(y)) = (rate(&of_fsdp), rate(of_tensor)) {
                let [adds, hides] = bounds::mixed(x, y, ffn);
                let _ = writeln!(
                    out,
                    " FSDP over {of_fsdp}, tensor over {of_tensor}: {adds:.1} tokens a device if their times \
                     add, {hides:.1} beside each other"
                );
            }
        }
        let p = &self.inputs.workload.value.parallelism;
        let mut links: Vec<(&str, f64)> =
            self.axes.iter().filter(|a| a.axes.len() == 1).map(|a| (a.axes.as_str(), a.link)).collect();
        links.dedup_by(|a, b| a.1 == b.1);
        for (axis, link) in links {
            let group = model.heads as f64 / model.kv_heads() as f64;
            let _ = write!(
                out,
                " over a link of {axis} ({:.1} GB/s): a stage of {:.0} M parameters hides its transfer, {:.0} \
                 tokens a rank a step of ring attention",
                link / 1e9,
                bounds::stage_parameters(self.peak, link, hidden, compute) / 1e6,
                bounds::ring_tokens(self.peak, link, group, compute)
            );
            if let Some(moe) = &model.moe {
                let width = moe.ffn.unwrap_or(model.ffn);
                let e = p.expert.max(2) as f64;
                let needed = bounds::expert_width(self.peak, link, (e - 1.0) / e, compute);
                let _ = write!(out, ", experts {needed:.0} wide ({width} here) an exchange among {e}");
            }
            out.push('\n');
        }
        if p.pipeline.size > 1 {
            let needed = bounds::micro_batches(p.pipeline.size as f64, BUBBLE);
            let _ = writeln!(out, " a bubble of 5 %: {needed:.0} micro-batches over the chunks of a rank");
        }
        out
    }

    fn run_text(&self) -> String {
        let (flops, active) = (self.run_flops(), self.estimate.rules.active_parameters);
        let [share, causal] = self.attention_shares();
        let mut rows = table(&["a run of these tokens", ""]);
        let mut add = |name: &str, value: String| {
            rows.add_row([name.to_string(), value]);
        };
        add("tokens", format!("{:.3e}, {:.1} a parameter", self.tokens, self.tokens / active));
        add("6·P·D", format!("{flops:.3e} FLOP, {:.0} PFLOP/s-days", flops / training::PFLOP_DAY));
        add(
            "attention beside it",
            format!("{:.2} % in full, {:.2} % under the mask", 100.0 * share, 100.0 * causal),
        );
        let energy =
            self.energy_mwh().map_or(String::new(), |mwh| format!(", {mwh:.0} MWh at full board power"));
        let devices = grouped(self.devices as u64);
        add("at the pace of this estimate", format!("{:.2} days on {devices} devices{energy}", self.days()));
        add("tokens a device and step", format!("{:.0}", self.estimate.tokens / self.devices));
        for law in &LAWS {
            let [p, d] = law.optimum(flops);
            let loss = law.loss(active, self.tokens);
            add(
                law.name,
                format!(
                    "loss {loss:.4}; for these FLOPs {:.1} G parameters, {:.2} T tokens",
                    p / 1e9,
                    d / 1e12
                ),
            );
        }
        let [p, d] = training::twenty(flops);
        add("20 tokens a parameter", format!("{:.1} G parameters, {:.2} T tokens", p / 1e9, d / 1e12));
        format!("{}\n", rows.trim_fmt())
    }
}

fn add_ridges(rows: &mut comfy_table::Table, device: &str, ridges: &[Ridge]) {
    for r in ridges {
        let name = if device.is_empty() { r.format.clone() } else { format!("{device} {}", r.format) };
        rows.add_row([
            name,
            format!("{}", r.peak_tflops),
            format!("{:.1}", r.ridge),
            format!("{:.1}", r.batch),
        ]);
    }
}

/// The rooflines of all shipped devices, as a table and as JSON.
pub(super) fn all_devices() -> Result<(String, Value), SpecError> {
    let mut rows =
        table(&["device and format", "peak TFLOP/s", "ridge FLOP/B", "rows above which a product computes"]);
    let mut devices = serde_json::Map::new();
    for name in catalog::names(Kind::Device) {
        let device = load::<Device>(name, &[])?.value;
        let ridges = roofline::ridges(&device);
        add_ridges(&mut rows, name, &ridges);
        devices.insert(name.to_string(), json!(ridges));
    }
    Ok((format!("{}\n", rows.trim_fmt()), devices.into()))
}
