//! Whole timelines: golden files compared byte for byte, and replay.
//!
//! After a change that is meant to change timelines, `STEPSIM_BLESS=1 cargo test --test all golden::` writes the files
//! anew.

use std::path::{Path, PathBuf};

use crate::command::Folder;

/// Runs `stepsim run … -o FILE` and returns the file's bytes.
fn trace(extension: &str, args: &str) -> Vec<u8> {
    let folder = Folder::new();
    folder.stepsim(&format!("run {args} --quiet -o trace.{extension}")).ok();
    std::fs::read(folder.path(&format!("trace.{extension}"))).expect("a trace")
}

fn golden_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("traces").join(name)
}

fn compare(name: &str, args: &str) {
    let (_, extension) = name.split_once('.').expect("an extension");
    let (path, new) = (golden_file(name), trace(extension, args));
    if std::env::var_os("STEPSIM_BLESS").is_some() {
        std::fs::write(&path, &new).expect("a golden file");
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    if let Some(at) = (0..kept.len().max(new.len())).find(|i| kept.get(*i) != new.get(*i)) {
        let around = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes.get(at.saturating_sub(200)..).unwrap_or_default())
                .chars()
                .take(400)
                .collect::<String>()
        };
        panic!("traces/{name} differs at byte {at}\n--- kept\n{}\n--- new\n{}", around(&kept), around(&new));
    }
}

#[test]
fn a_pipeline_of_four() {
    compare("tiny-4.json", "tiny-4 --detail phase");
}

const TENSOR: &str = "tiny-4 --set=parallelism.tensor=2 --set=parallelism.pipeline.size=2 --set=batch.global=2 \
                      --trace-ranks=0";

#[test]
fn tensor_parallel_op_by_op() {
    compare("tiny-4-tensor-2.json", TENSOR);
    compare("tiny-4-tensor-2.pftrace", TENSOR);
}

/// Equal inputs and seeds give equal bytes; another seed does not.
#[test]
fn a_run_can_be_repeated() {
    for extension in ["json", "pftrace"] {
        let run = "tiny-4 --set=noise.compute_sigma=0.05 --trace-ranks=all --seed";
        let noisy = |seed: &str| trace(extension, &format!("{run} {seed}"));
        assert_eq!(noisy("7"), noisy("7"));
        assert_ne!(noisy("7"), noisy("8"));
    }
}
