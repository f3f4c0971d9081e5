//! Counted by hand elsewhere, drawn elsewhere, and laws.

use proptest::prelude::*;
use serde_json::Value;
use stepsim_price::moe::*;
use stepsim_spec::model::GroupScore;
use stepsim_spec::workload::{DispatcherKind, RowFormat};

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../tests/data/moe.json")).expect("the data file is JSON")
}
fn close(got: f64, want: f64, what: &str) {
    assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{what}: {got} is not {want}");
}
fn list(cases: &Value, field: &str) -> Vec<Value> {
    let list = cases[field].as_array().expect("a list").clone();
    assert!(!list.is_empty());
    list
}
fn format(name: &Value) -> RowFormat {
    match name.as_str() {
        Some("bf16") => RowFormat::Bf16,
        Some("mxfp8") => RowFormat::Mxfp8,
        _ => RowFormat::Fp8Block,
    }
}

#[test]
fn counts_equal_those_worked_out_apart() {
    for case in list(&golden(), "cases") {
        let u = |f: &str| case[f].as_u64().expect(f);
        let name = case["name"].as_str().expect("a name");
        let routing = Routing {
            experts: u("experts"),
            top_k: u("top_k"),
            groups: u("groups"),
            group_limit: u("group_limit"),
            score: GroupScore::Drawn,
        };
        let (ranks, per_domain, tokens) = (u("ranks"), u("per_domain"), u("tokens"));
        let number = |v: &Value| v.as_f64().expect("a number");
        let domains = ranks / per_domain;
        let [by_domain, by_rank] = [domains, ranks].map(|parts| routing.distinct(parts));
        for (got, want) in [(&by_domain, &case["domains"]), (&by_rank, &case["ranks_touched"])] {
            close(got.mean, number(&want[0]), name);
            close(got.variance, number(&want[1]), name);
        }
        // Large cases have no distribution.
        for (d, want) in case["domains_p"].as_array().into_iter().flatten().enumerate() {
            close(by_domain.p.get(d).copied().unwrap_or(0.0), number(want), name);
        }
        let cv = number(&case["rows_sd"]) / (tokens * u("top_k")) as f64;
        close(imbalance::fullest(cv, ranks), number(&case["rows_fullest"]), name);
        let traffic = Traffic {
            tokens: tokens as f64,
            top_k: u("top_k") as f64,
            ranks: ranks as f64,
            per_domain: per_domain as f64,
            domains_per_token: by_domain.mean,
            ranks_per_token: by_rank.mean,
        };
        for (kind, key) in [
            (DispatcherKind::Alltoall, "alltoall"),
            (DispatcherKind::AlltoallPxn, "alltoall_pxn"),
            (DispatcherKind::Allgather, "allgather"),
            (DispatcherKind::RankDedup, "rank_dedup"),
            (DispatcherKind::TwoStage, "two_stage"),
            (DispatcherKind::Hybridep, "two_stage_hybridep"),
        ] {
            let d = dispatcher(kind);
            let wanted = &case["exchange"][key];
            if wanted.is_null() || (kind == DispatcherKind::Hybridep && domains == 1) {
                continue;
            }
            let rule = match wanted["rule"].as_str() {
                Some("payload") => RowRule::Payload,
                Some("deepep") => RowRule::DeepEp,
                _ => RowRule::HybridEp,
            };
            if kind == DispatcherKind::TwoStage {
                assert_eq!(d.row_rule(domains), rule, "{name}");
            }
            for (exchange, phase) in [(MoeExchange::Dispatch, "dispatch"), (MoeExchange::Combine, "combine")]
            {
                let row = rule.row_bytes(
                    exchange,
                    format(&case[phase]),
                    u("hidden"),
                    u("top_k"),
                    u("experts") / domains,
                );
                let bytes = d.bytes(&traffic, row);
                let at = format!("{name}, {key}, {phase}");
                close(bytes.network, number(&wanted[phase][0]), &at);
                close(bytes.scale_up, number(&wanted[phase][1]), &at);
                let (net, up) = (number(&case["network_Bps"]), number(&case["scale_up_Bps"]));
                close((bytes.network / net).max(bytes.scale_up / up), number(&wanted[phase][2]), &at);
            }
        }
    }
}

/// Gates that rank groups of 32 of 256 experts, on 64 ranks in domains of eight: drawn elsewhere with 200,000 tokens.
#[test]
fn ranked_groups_touch_what_was_drawn_elsewhere() {
    for case in list(&golden(), "gates") {
        let group_limit = case["group_limit"].as_u64().expect("a limit");
        let score: GroupScore = serde_json::from_value(case["group_score"].clone()).expect("a score");
        let routing = Routing { experts: 256, top_k: 8, groups: 8, group_limit, score };
        for (parts, field) in [(8, "domains"), (64, "ranks")] {
            let got = routing.distinct(parts);
            let [want, error] = [0, 1].map(|i| case[field][i].as_f64().expect(field));
            // Four standard errors of the two draws together.
            let own = (got.variance / 8192.0).sqrt();
            assert!(
                (got.mean - want).abs() <= 4.0 * own.hypot(error) + 5e-5,
                "{} is not {want}: {case}",
                got.mean
            );
            let drawn = Routing { score: GroupScore::Drawn, ..routing }.distinct(parts).mean;
            assert!(got.mean >= drawn, "{} for {drawn} where groups are drawn: {case}", got.mean);
        }
    }
}

proptest! {
    /// Distinct parts: at most k and at most the parts; finer parts and more groups are more; network rows fall from
    /// copies to ranks to domains.
    #[test]
    fn laws_of_distinct_parts(
        (groups, group, top_k, limit) in (1u64..6, 1u64..5, 1u64..9, 1u64..6),
        halvings in 0u32..4,
    ) {
        let experts = groups * group * 16;
        let limit = limit.min(groups);
        let top_k = top_k.min(limit * group * 16);
        let routing = Routing { experts, top_k, groups, group_limit: limit, score: GroupScore::Drawn };
        let parts = 1 << halvings;
        let coarse = routing.distinct(parts);
        let fine = routing.distinct(2 * parts);
        prop_assert!((coarse.p.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        prop_assert!(coarse.mean <= (top_k.min(parts)) as f64 + 1e-9 && coarse.variance > -1e-9);
        prop_assert!(fine.mean >= coarse.mean - 1e-9);
        if limit < groups {
            let freer = Routing { group_limit: limit + 1, ..routing };
            prop_assert!(freer.distinct(parts).mean >= coarse.mean - 1e-9);
        }
        let t = Traffic {
            tokens: 100.0, top_k: top_k as f64, ranks: (2 * parts) as f64, per_domain: 2.0,
            domains_per_token: coarse.mean, ranks_per_token: fine.mean,
        };
        let net = |kind| dispatcher(kind).rows(&t).network;
        let (two, dedup, all) =
            (net(DispatcherKind::TwoStage), net(DispatcherKind::RankDedup), net(DispatcherKind::Alltoall));
        prop_assert!(two <= dedup + 1e-6 && dedup <= all + 1e-6);
        if top_k == 1 {
            prop_assert!((two - all).abs() < 1e-6);
        }
    }
}
