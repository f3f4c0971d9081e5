//! Tables name fields that exist, with values that they can have.

use serde_json::{Value, json};

use super::table::Table;
use super::{Beside, FORMATS, Status, syntax, translate};
use crate::step::spec::{WorkloadSpec, json as raw};

/// A workload in which every part has what it must have.
fn whole() -> Value {
    json!({
        "model": {
            "name": "m", "layers": 4, "hidden": 64, "heads": 4, "ffn": 256, "vocabulary": 512, "sequence": 128,
            "moe": {"experts": 4, "top_k": 1},
            "mla": {"kv_lora_rank": 16, "qk_nope_head_size": 16, "qk_rope_head_size": 16, "v_head_size": 16}
        },
        "batch": {"global": 4}
    })
}

#[test]
fn every_field_of_every_table_exists() {
    for (format, _) in FORMATS {
        let table = Table::load(format).unwrap_or_else(|e| panic!("{format}: {e}"));
        let mut seen = 0;
        for (path, value) in table.fields() {
            let mut workload = whole();
            let given = value.is_some();
            raw::set(&mut workload, &path, value.unwrap_or(json!(1))).unwrap();
            if let Err(e) = raw::typed::<WorkloadSpec>(&workload) {
                let exists = !given
                    && !e.to_string().contains("no such field")
                    && !e.to_string().contains("unknown field");
                assert!(exists, "{format}: {path}: {e}");
            }
            seen += 1;
        }
        assert!(seen > 15, "{format}: {seen} fields");
        let mut workload = whole();
        raw::merge(&mut workload, Value::Object(table.workload.clone()));
        raw::typed::<WorkloadSpec>(&workload).unwrap_or_else(|e| panic!("{format}: defaults: {e}"));
    }
}

#[test]
fn a_shell_line_is_read_as_a_shell_reads_it() {
    let text = "N=8\nM=${M:-\"4\"} # comment --not-this 1\nARGS=(\n  --a $N # eight\n  --b-c ${M}\n  '--d' \"e f\"\n)\n\
                if x; then\nARGS+=(\"--g 7\")\nfi\nrun --h=9 --i 1 2 \\\n  --flag --off False --path $UNKNOWN/x ${ARGS[@]} | tee log --a 16";
    let read = syntax::read(syntax::Syntax::ShellOrYaml, text).unwrap();
    let get = |name: &str| read.iter().find(|r| r.0 == name).map(|r| r.1.clone());
    assert_eq!(get("b_c"), Some(json!(4)));
    assert_eq!(get("d"), Some(json!("e f")));
    assert_eq!(get("g"), Some(json!(7)));
    assert_eq!(get("h"), Some(json!(9)));
    assert_eq!(get("i"), Some(json!([1, 2])));
    assert_eq!(get("flag"), Some(json!(true)));
    assert_eq!(get("off"), Some(json!(false)));
    assert_eq!(get("path"), Some(json!("")), "a variable that is not set says nothing");
    assert_eq!(get("a"), Some(json!(16)), "the last counts");
    assert_eq!(get("not_this"), None);
    assert!(syntax::read(syntax::Syntax::ShellOrYaml, "x --a 'b").is_err());
}

#[test]
fn names_are_found_with_and_without_their_sections() {
    let table = Table::load("nemo").unwrap();
    for name in ["model.num_layers", "num-layers", "training.model.num_layers", "model.optim.bucket_cap_mb"] {
        assert!(table.rule(name).is_some(), "{name}");
    }
    assert!(table.rule("model.num_layer").is_none());
}

#[test]
fn what_is_not_known_is_said() {
    let beside = Beside { devices: Some(8), ..Beside::default() };
    let text = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 512 --seq-length 128 \
                --micro-batch-size 1 --global-batch-size 8 --flux-capacitor 88 --lr 1 --window-size 128 --optimizer shampoo";
    let made = translate("megatron", text, "x.sh", &beside).unwrap();
    let names = |status| made.of(status).map(|a| a.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(Status::Unknown), ["flux_capacitor"]);
    assert_eq!(names(Status::NoEffect), ["lr"]);
    assert_eq!(names(Status::Matters), ["window_size", "optimizer"]);
    assert_eq!(made.workload["model"]["ffn"], 256);
    assert_eq!(made.workload["parallelism"]["data"], 8);
}
