use stepsim_bring::training_log::*;

const WORK: StepWork =
    StepWork { sequences: 256.0, tokens: 256.0 * 4096.0, devices: 64.0, flops: 4e14, peak: 1e15 };

fn read(text: &str) -> Log {
    Log::read(text).unwrap().unwrap_or_else(|| panic!("{text}"))
}

/// A line of each software as it prints it, with numbers of ours, and its seconds.
const LINES: &str = include_str!("training-log.json");

#[test]
fn steps_of_many_kinds_of_logs_are_read() {
    let lines: Vec<(String, String, f64)> = serde_json::from_str(LINES).unwrap();
    for (software, line, seconds) in lines {
        let log = read(&line);
        assert_eq!(log.software, software, "{line}");
        assert!((log.seconds(&WORK) / seconds - 1.0).abs() < 1e-3, "{line}: {}", log.seconds(&WORK));
    }
    assert_eq!(Log::read("loss: 3.1\nnothing of a step").unwrap(), None);
}

fn megatron(steps: impl Iterator<Item = (u32, f64)>) -> String {
    let line = |(step, ms): (u32, f64)| {
        format!(
            " iteration {step:8}/   10000 | elapsed time per iteration (ms): {ms:.1} | global batch size:   256 |\n"
        )
    };
    steps.map(line).collect()
}

/// Noise of some percent, the same at every call.
fn noisy(ms: f64, step: u32) -> f64 {
    ms * (1.0 + 0.01 * (f64::from(step * 7919 % 11) / 5.0 - 1.0))
}

/// The steady step is told from all else that happens in a run.
#[test]
fn steady_steps_are_told_from_the_rest() {
    let plain = |step: u32| noisy(1000.0, step);
    let times = |ms: &dyn Fn(u32) -> f64| read(&megatron((1..=200).map(|i| (i, ms(i))))).steady;
    let is = |steady: &Steady, ms: f64| assert!((steady.median / ms - 1.0).abs() < 0.01, "{steady:?}");
    let warm = times(&|i| if i <= 6 { 5000.0 - 600.0 * f64::from(i) } else { plain(i) });
    is(&warm, 1000.0);
    assert_eq!((warm.warm_up, warm.spikes.len(), warm.periods.len()), (6, 0, 0), "{}", warm.words(1e-3));
    let saves = times(&|i| if i % 50 == 0 { 13_000.0 } else { plain(i) });
    is(&saves, 1000.0);
    assert_eq!((saves.every, saves.spikes.len()), (Some(50), 4), "{}", saves.words(1e-3));
    let stalls = times(&|i| if [33, 71, 160].contains(&i) { 4000.0 } else { plain(i) });
    is(&stalls, 1000.0);
    assert_eq!((stalls.every, stalls.spikes.len()), (None, 3), "{}", stalls.words(1e-3));
    let sick = times(&|i| if (120..150).contains(&i) { noisy(1500.0, i) } else { plain(i) });
    is(&sick, 1000.0);
    let found: Vec<(u64, u64)> =
        sick.periods.iter().filter(|p| p.median > 1200.0).map(|p| (p.from, p.to)).collect();
    assert_eq!(found, [(120, 149)], "{}", sick.words(1e-3));
    let drift = times(&|i| noisy(1000.0 + 2.0 * f64::from(i), i));
    assert!(drift.drift.is_some_and(|d| (0.2..0.45).contains(&d)), "{}", drift.words(1e-3));
    let worse = times(&|i| if i > 130 { noisy(1300.0, i) } else { plain(i) });
    is(&worse, 1000.0);
    assert_eq!(worse.periods.len(), 1, "{}", worse.words(1e-3));
    assert_eq!(times(&plain).periods, []);
}

/// A log that is cut, mixed, coloured or of many ranks gives the right number or none.
#[test]
fn damaged_logs_are_read_right_or_refused() {
    let whole = megatron((1..=40).map(|i| (i, noisy(1000.0, i))));
    let right = |text: &str| {
        let log = read(text);
        assert!((log.seconds(&WORK) - 1.0).abs() < 0.02, "{}: {text}", log.words(&WORK));
        log
    };
    // Cut anywhere: a number that is cut in two is none.
    for end in (whole.len() - 130)..whole.len() {
        right(&whole[..end]);
    }
    right(&whole[37..]);
    let coloured: String = whole.lines().map(|line| format!("\u{1b}[32m{line}\u{1b}[0m\n")).collect();
    right(&coloured);
    let of_ranks: String =
        whole.lines().flat_map(|l| [format!("[rank0]: {l}\n"), format!("[rank7]: {l}\n")]).collect();
    assert!(right(&of_ranks).steady.lines <= 40);
    let windows = whole.replace('\n', "\r\n");
    right(&windows);
    let warned: String =
        whole.lines().map(|l| format!("{l}\nUserWarning: something in 12.3s\nstep: none\n")).collect();
    right(&warned);
    // A run that began again, and another run of the same software before it.
    let again = megatron((1..=30).map(|i| (i, 3000.0))) + &whole;
    assert_eq!(right(&again).steady.restarts, 1);
    // Lines of another software that tell another step are another run's.
    let nano: String = (0..40).map(|i| format!("iter {i}: loss 3.1, time 245.12ms, mfu 32.11%\n")).collect();
    let refused = Log::read(&(whole.clone() + &nano)).unwrap_err().to_string();
    assert!(refused.contains("Megatron") && refused.contains("nanoGPT"), "{refused}");
    // A few stray lines are not.
    right(&(whole.clone() + "iter 1: loss 3.1, time 245.12ms, mfu 32.11%\nend\n"));
    assert_eq!(Log::read(&whole[..60]).unwrap(), None);
}

/// Of a run that began again the facts of its last beginning hold.
#[test]
fn facts_are_those_of_the_run_that_counts() {
    let first = megatron((1..=30).map(|i| (i, 3000.0)));
    let again = first.replace("global batch size:   256", "global batch size:   128")
        + &megatron((1..=40).map(|i| (i, noisy(1000.0, i))));
    let log = read(&again);
    assert_eq!(log.facts.get("batch.global"), Some(256));
    assert!(log.words(&WORK).contains("the global batch changed"), "{}", log.words(&WORK));
}

/// A progress bar prints whole seconds since it began, whatever a step takes.
#[test]
fn whole_seconds_of_a_bar_are_no_steps_of_a_second() {
    for step_s in [0.042, 0.42, 1.32, 1.6, 2.4, 3.5, 12.3] {
        let clock = |at: f64| format!("{:02}:{:02}", at as u64 / 60, at as u64 % 60);
        let line = |i: u32| {
            let (done, left) = (f64::from(i) * step_s, f64::from(600 - i) * step_s);
            format!("{:3}%|#| {i}/600 [{}<{}, {:.2}it/s]\r", i / 6, clock(done), clock(left), 1.0 / step_s)
        };
        let bar = (1..=600).map(line).collect::<String>();
        let log = read(&(bar.clone() + "\n"));
        let is_step = |log: &Log| {
            let found = log.seconds(&WORK);
            assert!((found / step_s - 1.0).abs() < 0.02, "{step_s}: {}", log.words(&WORK));
            assert!(log.words(&WORK).contains("(mean of "), "{}", log.words(&WORK));
        };
        is_step(&log);
        // Bars of evaluations stand between, and a run that went on has a clock of its own.
        let evaluation: String =
            (1..=50).map(|i| format!(" {i}/50 [00:{:02}<00:00, 9it/s]\r", i / 9)).collect();
        let parts: Vec<&str> = bar.split_inclusive('\r').collect();
        let with_bars: String =
            parts.chunks(200).map(|part| part.concat() + &evaluation.replace(' ', "| ")).collect();
        is_step(&read(&(with_bars + "\n")));
        assert_eq!(read(&(bar.repeat(2) + "\n")).steady.restarts, 1);
    }
}

/// A rate of which nobody says the work is told in its own unit.
#[test]
fn rates_without_their_work_are_no_seconds() {
    let line = |i: u32| format!("step: {i:2}  loss: 3.0  memory: 40GiB  tps: 6,500  tflops: 300  mfu: 30%\n");
    let words = read(&(1..=20).map(line).collect::<String>()).plain_words();
    assert!(words.contains("steady 6500.0 tokens/s a device"), "{words}");
}

/// What Megatron prints of its arguments starts it again.
#[test]
fn arguments_that_a_log_prints_are_a_line() {
    let block = "------------------------ arguments ------------------------\n  bf16 ............................................ True\n  \
                 hidden_size ..................................... 4096\n  fp16 ............................................ False\n  \
                 seq_length ...................................... 2048\n-------------------- end of arguments ---------------------\n";
    let log = read(&(block.to_owned() + &megatron((1..=3).map(|i| (i, 1000.0)))));
    let line = log.facts.line.clone().unwrap();
    assert_eq!(line, "python pretrain_gpt.py --bf16 --hidden-size 4096 --seq-length 2048");
    assert_eq!((log.facts.get("batch.global"), log.facts.get("sequence")), (Some(256), Some(2048)));
}

#[test]
fn speeds_are_read_in_their_units() {
    for (text, seconds) in [
        ("13.1s", 13.1),
        ("640 ms", 0.64),
        ("40%", 1.0),
        ("4096tok/s/gpu", 4.0),
        ("262144 tok/s/all", 4.0),
        ("262.144ktok/s", 4.0),
        ("400 TFLOP/s", 1.0),
        ("0.5 it/s", 2.0),
        ("1e3 ms", 1.0),
        ("262.144ktok/s/all", 4.0),
        ("64samples/s", 4.0),
    ] {
        let speed: RunSpeed = text.parse().unwrap();
        assert!((speed.seconds(&WORK) / seconds - 1.0).abs() < 1e-3, "{text}: {}", speed.seconds(&WORK));
    }
    for wrong in ["", "s", "13", "-1s", "0s", "12 GB/s"] {
        assert!(wrong.parse::<RunSpeed>().is_err(), "{wrong}");
    }
}
