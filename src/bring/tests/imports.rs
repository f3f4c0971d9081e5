//! Tables name fields that exist, with values that they can have.

use serde_json::{Value, json};
use stepsim_bring::imports::table::FormatTable;
use stepsim_bring::imports::{Beside, Counts, Invocation, Status, syntax, translate, unpacked};
use stepsim_spec::{WorkloadSpec, catalog, json as raw};

/// A workload in which every part has what it must have.
fn whole() -> Value {
    json!({
        "model": {
            "name": "m", "layers": 4, "hidden": 64, "heads": 4, "ffn": 256, "vocabulary": 512, "sequence": 128,
            "moe": {"experts": 4, "top_k": 1},
            "mla": {"kv_lora_rank": 16, "qk_nope_head_size": 16, "qk_rope_head_size": 16, "v_head_size": 16}
        },
        "batch": {"global": 4},
        "training": {"adapters": {"rank": 8}}
    })
}

/// Every field that a table names, with a value that it may get.
fn fields(format: &str) -> Vec<(String, Option<Value>)> {
    let file = catalog::file(&format!("workloads/imports/{format}.json")).expect("a shipped table");
    let table: Value = serde_json::from_str(file).expect("JSON");
    let objects = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let arguments = objects(&table["arguments"]);
    let rules = arguments.values().filter(|rule| rule.is_object());
    let pieces = rules.clone().flat_map(|rule| {
        objects(&rule["values"]).into_values().chain([rule["on"].clone(), rule["off"].clone()])
    });
    let lookups = table["lookups"].as_array().into_iter().flatten();
    let all = pieces
        .chain(objects(&table["follows"]).into_values())
        .chain(lookups.flat_map(|lookup| objects(&lookup["values"]).into_values()));
    let valued = all.flat_map(|piece| objects(&piece)).map(|(path, value)| (path, Some(value)));
    let taken = arguments.values().filter_map(|rule| rule.as_str()).map(|path| (path.to_string(), None));
    let listed = rules.filter_map(|rule| {
        let each: Vec<Value> =
            objects(&rule["each"]).into_values().flat_map(|e| e.as_array().cloned()).flatten().collect();
        Some((rule["to"].as_str()?.to_string(), (!each.is_empty()).then(|| each.into())))
    });
    valued.chain(taken).chain(listed).filter(|(path, _)| !path.starts_with('$')).collect()
}

#[test]
fn every_field_of_every_table_exists() {
    for format in FormatTable::all().keys() {
        let table = FormatTable::load(format).unwrap_or_else(|e| panic!("{format}: {e}"));
        let mut seen = 0;
        for (path, value) in fields(format) {
            let mut workload = whole();
            let given = value.is_some();
            raw::set(&mut workload, &path, value.unwrap_or(json!(1))).unwrap();
            // The file that a stack is based on is merged before types are read.
            if let Some(stack) = workload["stack"].as_object_mut() {
                stack.remove("base");
            }
            if let Err(e) = raw::typed::<WorkloadSpec>(&workload) {
                let exists = !given
                    && !e.to_string().contains("no such field")
                    && !e.to_string().contains("unknown field");
                assert!(exists, "{format}: {path}: {e}");
            }
            seen += 1;
        }
        assert!(seen > 0, "{format} has no field of its own");
        let mut workload = whole();
        raw::merge(&mut workload, Value::Object(table.workload.clone()));
        // A stack that others lie over is named by its base.
        if let Some(base) = workload["stack"].get("base").cloned() {
            workload["stack"] = base;
        }
        raw::typed::<WorkloadSpec>(&workload).unwrap_or_else(|e| panic!("{format}: defaults: {e}"));
    }
}

#[test]
fn a_shell_line_is_read_as_a_shell_reads_it() {
    let text = "N=8\nM=${M:-\"4\"} # comment --not-this 1\nARGS=(\n  --a $N # eight\n  --b-c ${M}\n  '--d' \"e f\"\n)\n\
                if x; then\nARGS+=(\"--g 7\")\nfi\nrun --h=9 --i 1 2 \\\n  --flag --off False \
                --path $UNKNOWN/x \"${ARGS[@]}\" | tee log --a 16";
    let said = syntax::read(&[syntax::Syntax::Shell], text, &Invocation::default()).unwrap();
    let get = |name: &str| said.arguments.iter().find(|r| r.0 == name).map(|r| r.1.clone());
    assert_eq!(get("b_c"), Some(json!(4)));
    assert_eq!(get("d"), Some(json!("e f")));
    assert_eq!(get("g"), Some(json!(7)));
    assert_eq!(get("h"), Some(json!(9)));
    assert_eq!(get("i"), Some(json!([1, 2])));
    assert_eq!(get("flag"), Some(json!(true)));
    assert_eq!(get("off"), Some(json!(false)));
    assert_eq!(get("path"), Some(json!("")), "a variable that is not set says nothing");
    assert_eq!(get("a"), Some(json!(8)), "the words of another program are its own");
    assert_eq!(get("not_this"), None);
    assert!(syntax::read(&[syntax::Syntax::Shell], "x --a 'b", &Invocation::default()).is_err());
}

/// The value of `--x` behind lines of a script.
fn x_of(script: &str) -> Value {
    let text = format!("{script}\npython train.py --x $X");
    let said = syntax::read(&[syntax::Syntax::Shell], &text, &Invocation::of("A=1 s.sh one two")).unwrap();
    said.arguments.into_iter().rev().find(|(name, _)| name == "x").unwrap().1
}

#[test]
fn a_script_is_played_as_a_shell_plays_it() {
    let rows: Vec<(String, Value)> =
        serde_json::from_str(include_str!("imports-scripts.json")).expect("rows");
    for (script, x) in rows {
        assert_eq!(x_of(&script), x, "{script}");
    }
}

/// Where an argument's words come from.
#[test]
fn the_words_of_every_program_are_arguments() {
    let read = |text: &str| {
        let said = syntax::read(&[syntax::Syntax::Shell], text, &Invocation::default()).unwrap();
        Value::Object(said.arguments.into_iter().collect())
    };
    let one = json!({"a": 1, "b": true});
    for text in [
        "O=\" \\\n --a 1 \\\n --b \"\ntorchrun train.py $O",
        "O=\"--a 1\"; O+=\" --b\"; C=\"torchrun train.py $O\"; echo $C --a 9; eval $C",
        "srun bash -c \"torchrun train.py --a 1 --b\"",
        "O=(--a 1 --b)\ntorchrun train.py \"${O[@]}\" ${EXTRA_ARGS}",
        "O=(--a \"1\" --b)\nf() {\n c=\"torchrun train.py $1\"\n eval ${c}\n}\nf \"${O[*]}\"",
        "OPTIONS=\" --a 1 --b \"",
        "export NCCL=1 && python3 -m train --a=1 --b | tee x.log",
        "torchrun train.py --a 1 --b -x 4",
    ] {
        let mut words = read(text);
        words.as_object_mut().unwrap().remove("script.program");
        assert_eq!(words, one, "{text}");
    }
    let made = read("python -m maxtext.train base.yml a=1 ++b.c=x steps=30 UPPER=1\nother d=1");
    assert_eq!(made, json!({"a": 1, "b.c": "x", "steps": 30}));
}

#[test]
fn names_are_found_with_and_without_their_sections() {
    let table = FormatTable::load("nemo").unwrap();
    for name in ["model.num_layers", "num-layers", "training.model.num_layers", "model.optim.bucket_cap_mb"] {
        assert!(table.rule(name).is_some(), "{name}");
    }
    assert!(table.rule("model.num_layer").is_none());
}

#[test]
fn what_is_not_known_is_said() {
    let beside = Beside { devices: Some(8), ..Beside::default() };
    let text = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 512 --seq-length 128 \
                --micro-batch-size 1 --global-batch-size 8 --flux-capacitor 88 --lr 1 --window-size 128 \
                --optimizer shampoo";
    let made = translate("megatron", text, "x.sh", &beside).unwrap();
    let names = |status| made.of(status).map(|a| a.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(Status::Unknown), ["flux_capacitor"]);
    assert_eq!(names(Status::NoEffect), ["lr"]);
    assert_eq!(names(Status::Matters), ["window_size", "optimizer"]);
    assert_eq!(made.workload["model"]["ffn"], 256);
    // A word that nobody knows and that is off or empty is not in the step, unless software has it on by itself.
    let text = "num_layers: 4\nhidden_size: 64\nnum_attention_heads: 4\nvocab_size: 512\nseq_length: 128\n\
                micro_batch_size: 1\nglobal_batch_size: 8\ncheck_for_warp: false\nwarp_modules: []\n\
                warp_fusion: false\n";
    let made = translate("megatron", text, "x.yaml", &beside).unwrap();
    let names = |status| made.of(status).map(|a| a.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(Status::NoEffect), ["check_for_warp", "warp_modules"]);
    assert_eq!(names(Status::Unknown), ["warp_fusion"]);
    assert_eq!(made.workload["parallelism"]["data"], 8);
}

#[test]
fn recomputation_is_put_together_from_its_arguments() {
    let of = |arguments: &str| {
        let text = format!(
            "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1 \
             --global-batch-size 8 --pipeline-model-parallel-size 2 {arguments}"
        );
        let made = translate("megatron", &text, "x.sh", &Beside { devices: Some(8), ..Beside::default() });
        made.unwrap().workload.get("recompute").cloned().unwrap_or(Value::Null)
    };
    let rows: Vec<(String, Value)> =
        serde_json::from_str(include_str!("imports-recomputation.json")).expect("rows");
    for (arguments, recompute) in rows {
        assert_eq!(of(&arguments), recompute, "{arguments}");
    }
}

/// The programs of a job, as the script that it holds starts them.
#[test]
fn a_job_is_the_script_that_it_holds() {
    let counts = Some(Counts { nodes: 2, devices_per_node: 8 });
    let rows: Vec<(String, String)> = serde_json::from_str(include_str!("imports-jobs.json")).expect("rows");
    for (job, line) in rows {
        let typed = Invocation { file: "job.yaml".into(), counts, ..Invocation::default() };
        let script = unpacked(&job);
        let programs =
            if script == job { Vec::new() } else { syntax::shell::programs(&script, &typed).unwrap() };
        let started = programs.iter().find(|words| words.iter().any(|word| word == "t.py"));
        assert_eq!(started.map_or(String::new(), |words| words.join(" ")), line, "{job}");
    }
    let platform = "compute:\n  gpus: 8\ncommand: composer train.py\nparameters:\n  max_seq_len: 2048\n";
    assert_eq!(unpacked(platform), "max_seq_len: 2048\n");
    let plain = "type: sft\nmodel:\n  name: x\nresources:\n  gpus: 8\n";
    assert_eq!(unpacked(plain), plain);
}

/// Python says as much as these arguments: up to its training, by its classes, and by its surroundings unasked.
#[test]
fn python_is_read_up_to_its_training() {
    let rows: Vec<(String, Value)> = serde_json::from_str(include_str!("imports-python.json")).expect("rows");
    for (text, expected) in rows {
        let text = format!("from transformers import Trainer\n{text}");
        let said = syntax::read(&[syntax::Syntax::Calls], &text, &Invocation::default()).unwrap();
        assert_eq!(Value::Object(said.arguments.into_iter().collect()), expected, "{text}");
    }
}
