//! A walk over the schema of steps and machines: every field and every variant is drawn, upon shipped steps at their
//! real depth, and laws are held on what the checks take. A field fails that has no range in `tests/data/ranges.json`,
//! or that no draw reaches.

mod changes;
mod law;
mod otherwise;
mod pairs;
mod ranges;
mod schema;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use law::{Outcome, held, says_what_to_do};
use otherwise::step_end;
use pairs::Pairs;
use ranges::Document;
pub use ranges::Walk;
pub use schema::Leaf;
use stepsim::study::otherwise::FORM_ERROR;

use super::steps::{Draws, count};
use crate::slow::slow;

/// Upon some step, some value of the leaf's range is taken.
fn is_taken(walk: &Walk, leaf: &Leaf) -> bool {
    walk.nearest(&[&[leaf]]).into_iter().any(|document| {
        let values = walk.values(leaf, document.standing(leaf));
        values.iter().any(|value| walk.upon(document, leaf, value).inputs().is_ok())
    })
}

#[test]
fn every_field_and_variant_is_drawn() {
    let walk = Walk::new();
    for document in &walk.documents {
        document.inputs().unwrap_or_else(|e| panic!("{}, written out: {e}", document.command));
    }
    let missing: BTreeSet<String> =
        walk.leaves.iter().filter(|leaf| !is_taken(&walk, leaf)).map(Leaf::text).collect();
    let fields: BTreeSet<String> = walk.leaves.iter().map(Leaf::name).collect();
    println!(
        "{} fields, {} variants and types, {} taken nowhere",
        fields.len(),
        walk.leaves.len(),
        missing.len()
    );
    let refused: BTreeSet<String> = walk.ranges.refused.iter().cloned().collect();
    assert_eq!(
        missing, refused,
        "ranges.json: the former are never taken, the latter were written down as such"
    );
}

/// Steps of the walk, played: conservation, folding, jumps, floors; refusals say what to do.
#[test]
fn laws_hold_wherever_the_walk_leads() {
    let walk = Walk::new();
    let (mut draws, mut broken, mut forms) = (Draws(0x5eed_0055), Vec::new(), Vec::new());
    let [mut played, mut full, mut large, mut refused] = [0; 4];
    let as_they_stand = walk.documents.len();
    for i in 0..as_they_stand + (2 * count()).min(MOST) as usize {
        // A prime step: all leaves have their turn.
        let first = &walk.leaves[i * 733 % walk.leaves.len()];
        let drawn = || walk.draw(&mut draws, first);
        let (document, refusals) = walk.documents.get(i).map_or_else(drawn, |d| (d.clone(), Vec::new()));
        refused += refusals.len();
        broken.extend(refusals.iter().filter_map(|e| says_what_to_do(e).err()));
        let changed = (i % CHANGED == 0).then_some(i / CHANGED);
        match held(&document, changed) {
            Ok(Outcome::Played { form }) => {
                played += 1;
                if let Some(form) = form.filter(|form| i < as_they_stand && (form - 1.0).abs() > STANDING) {
                    broken.push(format!(
                        "draw {i}: the closed form is {form} of the step: {}",
                        document.command
                    ));
                }
                forms.extend(form.map(|form| ((form - 1.0).abs(), document.command)));
            }
            Ok(Outcome::Full) => full += usize::from(i >= as_they_stand),
            Ok(Outcome::Large) => large += usize::from(i >= as_they_stand),
            Ok(Outcome::Refused(_)) => refused += 1,
            Err(law) => broken.push(format!("draw {i}: {law}\n  stepsim run {}", document.command)),
        }
    }
    println!(
        "{played} played, {full} of the draws out of memory, {large} too large, {refused} fields refused"
    );
    forms.sort_by(|a, b| a.0.total_cmp(&b.0));
    forms
        .iter()
        .rev()
        .take(5)
        .for_each(|(off, command)| println!("closed form {:.1} % off: {command}", 100.0 * off));
    assert!(broken.is_empty(), "{} laws broken:\n{}", broken.len(), broken.join("\n"));
    assert!(played > 8 * (full + large), "too few are played");
    let near = forms[forms.len() * 9 / 10].0;
    assert!(near < FORM_ERROR, "one in ten closed forms is {:.1} % off and more", 100.0 * near);
}

#[test]
fn what_broke_a_law_once_holds() {
    for document in Walk::new().broken_once() {
        let outcome = held(&document, Some(0)).unwrap_or_else(|law| panic!("{}: {law}", document.command));
        assert!(matches!(outcome, Outcome::Played { .. }), "not played: {}", document.command);
    }
}

/// Steps in which several fields of one quantity are changed: a part that goes on from day to day, or the one that
/// `STEPSIM_PART` names. One that breaks a law is written to the folder of temporary files, as `pair-NUMBER.json` and
/// its machine; all are written to the folder of `STEPSIM_KEEP`. `STEPSIM_PAIR` names a written one to try alone.
#[test]
fn laws_hold_for_fields_in_pairs() {
    if let Some(path) = std::env::var_os("STEPSIM_PAIR") {
        held(&Document::kept(Path::new(&path)), Some(0)).unwrap_or_else(|law| panic!("{law}"));
        return;
    }
    let walk = Walk::new();
    let mut pairs = Pairs::new(&walk);
    let part = part();
    let kept = std::env::var_os("STEPSIM_KEEP").map(PathBuf::from);
    let tries = if slow() { count() } else { count() / 20 };
    let (mut broken, mut played, mut fields) = (Vec::new(), 0, 0);
    for number in part * tries..(part + 1) * tries {
        let mut draws = Draws(0x5eed_0074 ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (origin, changes) = pairs.draw(&mut draws, number as usize);
        let keep =
            |changes: &_| kept.iter().for_each(|folder| pairs.upon(&origin, changes).keep(folder, number));
        keep(&changes);
        let changes = pairs.playable(&origin, changes);
        keep(&changes);
        match pairs.held(&origin, &changes) {
            Ok(Outcome::Played { .. }) => {
                played += 1;
                fields += changes.len();
                pairs.played(&changes);
            }
            Ok(_) => {}
            Err(law) => {
                let (document, law) = pairs.fewest(&origin, &changes, law);
                document.keep(&std::env::temp_dir(), number);
                println!("draw {number}: {law}\n  stepsim run {}", document.command);
                broken.push(format!("draw {number}: {law}\n  stepsim run {}", document.command));
            }
        }
    }
    let [all, seen] = pairs.count();
    println!("part {part}: {played} of {tries} played, with {fields} fields, {seen} of {all} pairs");
    assert!(broken.is_empty(), "{} laws broken in part {part}:\n{}", broken.len(), broken.join("\n"));
    if slow() {
        assert!(pairs.alone().is_empty(), "fields that are drawn in no pair: {:?}", pairs.alone());
    }
}

/// The closed form's error in what it claims, on steps with fields in pairs, as a part that goes on from day to day:
/// hardly one beyond 7 %, of many 3 % for 95 in a hundred and half a percent on the mean. What has no term is not claimed, for a
/// reason that the inputs tell.
#[test]
fn the_closed_form_errs_little_in_what_it_claims() {
    let walk = Walk::new();
    let pairs = Pairs::new(&walk);
    let tries = if slow() { 300 } else { count() / 10 };
    let (mut errors, mut unclaimed) = (Vec::new(), 0);
    for number in part() * tries..(part() + 1) * tries {
        let mut draws = Draws(0x5eed_0078 ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (origin, mut changes) = pairs.draw(&mut draws, number as usize);
        changes.truncate(COMPARED);
        let document = pairs.upon(&origin, &pairs.playable(&origin, changes));
        let Some(found) = law::compared(&document) else { continue };
        let own = 100.0 * found.own_error.fraction;
        println!("{number}\t{own:+.3}\t{:?}\t{}", found.not_claimed, document.command);
        if !found.not_claimed.is_empty() {
            unclaimed += 1;
            continue;
        }
        if own.abs() > 7.0 {
            document.keep(&std::env::temp_dir(), number);
        }
        errors.push((own.abs(), document.command));
    }
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = errors.iter().map(|(own, _)| own).sum::<f64>() / errors.len().max(1) as f64;
    let near = errors.get(errors.len() * 95 / 100).map_or(0.0, |error| error.0);
    let (most, at) = errors.last().expect("something is claimed");
    let count = errors.len();
    println!(
        "{count} claimed: {mean:.2} % on the mean, 95 % of them {near:.2}, {most:.2} at most; {unclaimed} not"
    );
    // Wanted: none; one in two hundred is.
    let beyond = errors.iter().filter(|(own, _)| *own > 7.0).count();
    assert!(beyond <= 1 + count / 100, "{beyond} of {count} are off, {most:.2} % in what is claimed: {at}");
    assert!(
        count < 100 || mean <= 0.5 && near <= 3.0,
        "{mean:.2} % on the mean, {near:.2} for 95 in a hundred"
    );
    assert!(3 * count > unclaimed, "{count} claimed, {unclaimed} not");
}

/// The part that is tried: `STEPSIM_PART`, or today's.
fn part() -> u64 {
    std::env::var("STEPSIM_PART").ok().and_then(|part| part.parse().ok()).unwrap_or_else(today)
}

/// Days since 1970.
fn today() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / 86_400)
}

/// What a host has launched and has not begun fills its queue: in some step a short one holds it up.
#[test]
fn a_short_queue_holds_some_step_up() {
    let walk = Walk::new();
    let short = |document: &Document| {
        let mut short = document.clone();
        *short.workload.pointer_mut("/stack/host/queue")? = 1.into();
        (step_end(&short)? != step_end(document)?).then_some(())
    };
    let at = walk.documents.iter().position(|document| short(document).is_some());
    println!("a queue of one launch shows at draw {at:?}");
    assert!(at.is_some(), "no queue holds anybody up");
}

/// Fields of a draw that the closed form is held to: of many one is not claimed.
const COMPARED: usize = 4;
/// The closed form of a step as it stands is as near as this.
const STANDING: f64 = 0.2;
/// Of so many draws one is changed, read back, and given a cause to find.
const CHANGED: usize = 8;
/// Draws, at most.
const MOST: u64 = 5000;
