//! The size in which a cause makes the step take what was measured.

/// A step is fitted within this, on a scale of logarithms.
const CLOSE: f64 = 0.002;
/// Plays of one fit.
const PLAYS: usize = 14;
/// Smaller sizes that are tried where the largest cannot be.
const HALVINGS: i32 = 5;
/// The step by which the slope is taken.
const BESIDE: f64 = 1.04;

/// A fitted size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FittedSize {
    pub(super) size: f64,
    /// Seconds of the step with it.
    pub(super) seconds: f64,
    /// Logarithms of the size for one of the time: what little moves the step a lot has little.
    pub(super) slope: f64,
}

/// Finds the size between two at which a step takes `target` seconds, by false position on logarithms (Illinois):
/// longer with more. `None` where the largest size does not reach it; `far` is told what that reaches.
pub(super) fn fit(
    [least, most]: [f64; 2],
    now: f64,
    target: f64,
    far: &mut f64,
    play: &dyn Fn(f64) -> Option<f64>,
) -> Option<FittedSize> {
    let off = |seconds: f64| (seconds / target).ln();
    // Where the most cannot be (more experts' tokens than there are experts), something less is.
    let sizes = (0..HALVINGS).map(|n| least * (most / least).powf(0.7f64.powi(n)));
    let (most, reached) = sizes.into_iter().find_map(|size| Some((size, play(size)?)))?;
    let (mut a, mut b) = ((least.ln(), off(now)), (most.ln(), off(reached)));
    *far = target * b.1.exp();
    if a.1 >= -CLOSE || b.1 < -CLOSE {
        return None;
    }
    let mut best = b;
    let mut bisect = false;
    for _ in 0..PLAYS {
        if best.1.abs() <= CLOSE {
            break;
        }
        // A step that hides a cause up to a size is flat and then steep: every second play halves.
        let part = if bisect { 0.5 } else { (a.1 / (a.1 - b.1)).clamp(0.02, 0.98) };
        bisect = !bisect;
        let at = a.0 + part * (b.0 - a.0);
        let next = (at, off(play(at.exp())?));
        if next.1.abs() < best.1.abs() {
            best = next;
        }
        if next.1 < 0.0 { a = next } else { b = next }
    }
    let size = best.0.exp();
    let beside = off(play(size * BESIDE)?);
    let slope = BESIDE.ln() / (beside - best.1).max(1e-4);
    Some(FittedSize { size, seconds: target * best.1.exp(), slope })
}
