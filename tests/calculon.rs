use std::path::PathBuf;

use stepsim::analytic::{Quirks, estimate};
use stepsim::simulate::calculon::{CalculonRun, Choices};
use stepsim::spec::calculon::Calculon;

#[test]
fn explore() {
    let folder = PathBuf::from("/work/shared/calculon-goldens");
    let index: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("index.json")).unwrap()).unwrap();
    for case in index["cases"].as_array().unwrap() {
        let file = |key: &str| folder.join(case[key].as_str().unwrap());
        let inputs = Calculon::load(&file("application"), &file("execution"), &file("system")).unwrap();
        let total = estimate(&inputs, Quirks::AS_PUBLISHED).terms.total();
        let c = Choices::COMPATIBLE;
        let mut line = format!("{:.4} {total:10.4}", case["name"].as_str().unwrap());
        let r = |q: Choices| Choices { quirks: Quirks::REPAIRED, ..q };
        let p = |c: Choices| r(Choices { blocking: false, p2p_latency: true, ..c });
        let d = |c: Choices| p(Choices { data_in_closed_form: false, ..c });
        let g = |c: Choices| d(Choices { gather_after_step: true, ..c });
        let o = |c: Choices| g(Choices { offload_in_closed_form: false, ..c });
        let l = |c: Choices| o(Choices { ring_latency: true, ..c });
        let n = |c: Choices| l(Choices { contention: true, ..c });
        let u = |c: Choices| n(Choices { uneven: true, ..c });
        for choices in [
            Choices { ends_send: true, ..c },
            c,
            r(c),
            r(Choices { blocking: false, p2p_latency: false, ..c }),
            p(c),
            d(c),
            g(c),
            o(c),
            l(c),
            n(c),
            u(c),
            Choices::REAL,
        ] {
            match CalculonRun::new(&inputs, &choices) {
                Ok(run) => line += &format!(" {:+8.4}", 100.0 * (run.seconds() / total - 1.0)),
                Err(e) => line += &format!(" {}", e.to_string().chars().take(300).collect::<String>()),
            }
        }
        println!("{line}");
    }
}
