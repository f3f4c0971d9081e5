//! The documents of each sequence of a step.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use stepsim_spec::SpecError;
use stepsim_spec::workload::{CutDocument, DocumentsSpec, DrawnLengths};

/// Most documents of a step.
const MOST: usize = 1 << 22;

/// Lengths of the documents of `count` sequences of `sequence` tokens.
///
/// # Errors
/// The file of lengths has none, or lists that are no sequences; the step has too many documents.
pub fn packed(spec: &DocumentsSpec, sequence: u64, count: u64) -> Result<Vec<Vec<u64>>, SpecError> {
    if let Some(drawn) = &spec.drawn {
        let mut rng = ChaCha8Rng::seed_from_u64(drawn.seed);
        return fill(|| draw(drawn, &mut rng), spec.rest, sequence, count);
    }
    let given = match (&spec.lengths, &spec.file) {
        (Some(lengths), _) => LengthsFile::Stream(lengths.clone()),
        (_, Some(file)) => read(file.content().map_err(|e| e.under("documents.file"))?, sequence)?,
        _ => LengthsFile::Stream(Vec::new()),
    };
    match given {
        LengthsFile::Sequences(all) => Ok(all.into_iter().cycle().take(count as usize).collect()),
        LengthsFile::Stream(lengths) if lengths.is_empty() => {
            Err(SpecError::at("documents", "there are none"))
        }
        LengthsFile::Stream(lengths) => {
            let mut next = lengths.iter().copied().cycle();
            fill(|| next.next().unwrap_or(sequence), spec.rest, sequence, count)
        }
    }
}

/// The lengths in a file: one list, or one for each sequence.
#[derive(Deserialize)]
#[serde(untagged)]
enum LengthsFile {
    Stream(Vec<u64>),
    Sequences(Vec<Vec<u64>>),
}

fn read(content: &serde_json::Value, sequence: u64) -> Result<LengthsFile, SpecError> {
    let wrong = |problem: String| {
        SpecError::at("documents.file", problem)
            .allowed("a JSON list of lengths from 1, or a list of such lists, each as long as a sequence")
    };
    let lengths = LengthsFile::deserialize(content).map_err(|_| wrong("these are no lengths".into()))?;
    let (all, empty): (Box<dyn Iterator<Item = &u64>>, bool) = match &lengths {
        LengthsFile::Stream(one) => (Box::new(one.iter()), one.is_empty()),
        LengthsFile::Sequences(many) => (Box::new(many.iter().flatten()), many.is_empty()),
    };
    if empty || all.into_iter().any(|l| *l == 0 || *l > 1_000_000_000) {
        return Err(wrong("a length is 0 or above 1e9, or there is none".into()));
    }
    if let LengthsFile::Sequences(many) = &lengths {
        for (i, one) in many.iter().enumerate() {
            let tokens: u64 = one.iter().sum();
            if tokens != sequence {
                return Err(wrong(format!("list {i} has {tokens} tokens, a sequence has {sequence}")));
            }
        }
    }
    Ok(lengths)
}

/// So many lengths of a distribution.
pub fn drawn(spec: &DrawnLengths, count: u64) -> Vec<u64> {
    let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
    (0..count).map(|_| draw(spec, &mut rng)).collect()
}

/// A document of a log-normal length (Box and Muller 1958).
fn draw(spec: &DrawnLengths, rng: &mut ChaCha8Rng) -> u64 {
    let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    let z = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    let longest = spec.longest.unwrap_or(1_000_000_000);
    ((spec.median * (spec.sigma * z).exp()).round() as u64).clamp(spec.shortest, longest)
}

/// Packs documents one after the other; the last of a sequence is cut at its end.
fn fill(
    mut next: impl FnMut() -> u64,
    rest: CutDocument,
    sequence: u64,
    count: u64,
) -> Result<Vec<Vec<u64>>, SpecError> {
    let (mut sequences, mut documents, mut left) = (Vec::new(), 0_usize, 0);
    for _ in 0..count {
        let (mut one, mut room) = (Vec::new(), sequence);
        while room > 0 {
            let length = if left > 0 { left } else { next() };
            let fits = length.min(room);
            left = if rest == CutDocument::Carried { length - fits } else { 0 };
            room -= fits;
            one.push(fits);
            documents += 1;
            if documents > MOST {
                return Err(SpecError::at("documents", format!("the step has more than {MOST}"))
                    .allowed(format!("at most {MOST} documents in the sequences of a step"))
                    .hint("longer documents, or a smaller batch.global"));
            }
        }
        sequences.push(one);
    }
    Ok(sequences)
}
