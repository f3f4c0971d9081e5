//! The cost of one layer's exchanges on a rank: rows, bytes and kernel, for a workload across scale-up domains.

use super::{Dispatcher, ExchangeRows, MoeExchange, Routing, RowRule, Traffic, dispatcher};
use stepsim_core::units::Time;
use stepsim_spec::collectives::SecondStage;
use stepsim_spec::model::{ModelSpec, MoeSpec};
use stepsim_spec::workload::{DispatcherKind, RowFormat, WorkloadSpec};

/// How one rank's tokens travel to experts and back.
#[derive(Clone, Debug, PartialEq)]
pub struct Travel {
    /// Rows of one micro-batch.
    pub traffic: Traffic,
    kind: DispatcherKind,
    formats: [RowFormat; 4],
    units: Option<u32>,
    hidden: u64,
    top_k: u64,
    experts: u64,
}

impl Travel {
    /// For `tokens` tokens of a rank, whose experts lie on ranks of `domains` scale-up domains.
    pub fn new(w: &WorkloadSpec, model: &ModelSpec, moe: &MoeSpec, tokens: u64, domains: u64) -> Travel {
        let spec = &w.expert;
        let ranks = w.parallelism.expert.max(1);
        let routing = Routing::of(moe);
        let traffic = Traffic {
            tokens: tokens as f64,
            top_k: moe.top_k as f64,
            ranks: ranks as f64,
            per_domain: (ranks / domains) as f64,
            domains_per_token: routing.distinct(domains).mean,
            ranks_per_token: routing.distinct(ranks).mean,
        };
        let usual = RowFormat::Bf16;
        let formats = [
            spec.formats.dispatch.unwrap_or(usual),
            spec.formats.combine.unwrap_or(usual),
            spec.formats.combine_backward.unwrap_or(usual),
            spec.formats.dispatch_backward.unwrap_or(usual),
        ];
        let (hidden, experts) = (moe.width(model), moe.experts);
        let (kind, units, top_k) = (spec.dispatcher, spec.units, moe.top_k);
        Travel { traffic, kind, formats, units, hidden, top_k, experts }
    }

    /// The dispatcher.
    pub fn dispatcher(&self) -> &'static dyn Dispatcher {
        dispatcher(self.kind)
    }
    /// Format of the rows of an exchange.
    pub fn format(&self, exchange: MoeExchange) -> RowFormat {
        self.formats[exchange as usize]
    }
    fn domains(&self) -> u64 {
        self.traffic.domains().round() as u64
    }
    fn rule(&self) -> RowRule {
        self.dispatcher().row_rule(self.domains())
    }
    /// Bytes of one row on a link.
    pub fn row_bytes(&self, exchange: MoeExchange) -> u64 {
        let here = self.experts / self.domains().max(1);
        self.rule().row_bytes(exchange, self.format(exchange), self.hidden, self.top_k, here)
    }
    /// Bytes that one rank sends, with `load` times the mean rows: over the network, over scale-up links, handled.
    pub fn bytes(&self, exchange: MoeExchange, load: f64) -> ExchangeRows {
        let traffic = Traffic { tokens: self.traffic.tokens * load, ..self.traffic };
        self.dispatcher().bytes(&traffic, self.row_bytes(exchange))
    }
    /// Rows that reach one rank, each once: T·D_r where a token's rows for one rank are one, else k·T.
    pub fn rows_received(&self) -> f64 {
        let t = &self.traffic;
        t.tokens * if self.dispatcher().sums_per_rank() { t.ranks_per_token } else { t.top_k }
    }
    /// The exchange's own kernel; `None` where the machine's collectives carry it out.
    pub fn staged(&self, exchange: MoeExchange, load: f64) -> Option<SecondStage> {
        let kernels = self.dispatcher().kernels(self.domains())?;
        let bytes = self.bytes(exchange, load);
        let units = self.units.unwrap_or(kernels.units);
        let choices = self.traffic.tokens * self.traffic.top_k;
        let uncached = match exchange {
            MoeExchange::Dispatch => kernels.uncached_s + kernels.layout_s_per_choice * choices,
            _ => 0.0,
        };
        Some(SecondStage {
            inside: bytes.scale_up.round() as u64,
            start: Time::from_s(kernels.start_s + uncached),
            least: Time::from_s(bytes.handled / (kernels.rate_per_unit * f64::from(units.max(1)))),
            network_share: (1000.0 * kernels.network_share).round() as u32,
            units,
        })
    }
}
