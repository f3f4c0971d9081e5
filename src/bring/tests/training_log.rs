use stepsim_bring::training_log::*;

#[test]
fn steps_of_many_kinds_of_logs_are_read() {
    let work = StepWork { sequences: 256.0, tokens: 256.0 * 4096.0, devices: 64.0 };
    for (software, line, seconds) in [
        (
            "Megatron",
            " iteration        7/     100 | consumed samples:   1792 | elapsed time per iteration (ms): 4321.5 | \
             throughput per GPU (TFLOP/s/GPU): 401.2 | global batch size:   256 | lm loss: 9.1E+00 |",
            4.3215,
        ),
        (
            "NeMo",
            "iteration 5/99 | global_step: 5 | reduced_train_loss: 11.0 | train_step_timing in s: 8.212",
            8.212,
        ),
        (
            "torchtitan",
            "step: 10  loss:  7.1  memory: 41.22GiB(52.1%)  tps: 7,123  tflops: 350.1  mfu: 35.4%",
            16384.0 / 7123.0,
        ),
        ("torchtitan", "step: 10  \u{1b}[34mtps: \u{1b}[35m7,123  mfu: 35.4%", 16384.0 / 7123.0),
        ("DeepSpeed", "steps: 10 loss: 1.3214 iter time (s): 1.234 samples/sec: 51.8", 1.234),
        (
            "DeepSpeed",
            "epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=64.0, CurrSamplesPerSec=62.1",
            4.0,
        ),
        (
            "MaxText",
            "completed step: 5, seconds: 3.215, TFLOP/s/device: 150.2, Tokens/s/device: 2548.1, loss: 10.1",
            3.215,
        ),
        (
            "HF Trainer",
            "{'train_samples_per_second': 12.3, 'train_steps_per_second': 0.4, 'epoch': 1.0}",
            2.5,
        ),
        (
            "nanotron",
            "iteration: 5 / 100 | elapsed_time_per_iteration_ms: 1.23K | tokens_per_sec: 105K",
            1.23,
        ),
    ] {
        let log = Log::read(line).unwrap().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(log.software, software, "{line}");
        assert!((log.seconds(work) / seconds - 1.0).abs() < 1e-3, "{line}: {}", log.seconds(work));
    }
    assert_eq!(Log::read("loss: 3.1\nnothing of a step").unwrap(), None);
}

#[test]
fn the_middle_of_the_steps_behind_the_warm_up_counts() {
    let times = [9000, 2000, 1010, 1000, 1000, 1000, 1020, 1000, 1000, 990];
    let lines: Vec<String> = times
        .iter()
        .map(|t| format!("elapsed time per iteration (ms): {t}.0 | global batch size: 64 |"))
        .collect();
    let log = Log::read(&lines.join("\n")).unwrap().unwrap();
    let work = StepWork { sequences: 64.0, tokens: 1.0, devices: 1.0 };
    assert_eq!((log.lines, log.sequences, log.seconds(work)), (10, Some(64), 1.0));
}
