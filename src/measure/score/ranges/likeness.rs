//! How much one measured step says about another.

use super::traits::StepTraits;

/// The rest of a step's weight where a class differs. Of a few lists that were tried, this one leaves the shares of
/// classes nearest to four fifths where nothing is known of a source.
const OTHER_DEVICE_OF_GENERATION: f64 = 0.7;
const OTHER_GENERATION: f64 = 0.25;
const OTHER_MAKER: f64 = 0.1;
const OTHER_RELEASE: f64 = 0.4;
const OTHER_SOFTWARE: f64 = 0.15;
const OTHER_MODEL: f64 = 0.1;
const OTHER_LAYOUT: f64 = 0.3;
const OTHER_FORMAT: f64 = 0.6;
const OTHER_TRAINING: f64 = 0.3;
const OTHER_MEMORY: f64 = 0.3;
const ALONE_OR_NOT: f64 = 0.5;
/// So much of a step that consists of other parts takes its weight to 1/e.
const PARTS: f64 = 0.5;
/// So many doublings of a rate take its weight to 1/e.
const RATES: f64 = 3.0;
/// So many doublings of the number of devices take a step's weight to 1/e.
const DEVICES: f64 = 3.0;
/// So many doublings of another size do.
const DOUBLINGS: f64 = 6.0;

impl StepTraits {
    /// The weight of a measured step for one with these traits: 1 where all is the same.
    pub fn likeness(&self, measured: &StepTraits) -> f64 {
        let share = |same: bool, other: f64| if same { 1.0 } else { other };
        let doublings = |a: f64, b: f64| (a.max(1.0) / b.max(1.0)).log2().abs();
        let devices = doublings(f64::from(self.devices), f64::from(measured.devices));
        let sizes = doublings(self.hidden as f64, measured.hidden as f64)
            + doublings(self.tokens as f64, measured.tokens as f64);
        self.device_likeness(measured)
            * self.stack_likeness(measured)
            * share(self.model == measured.model, OTHER_MODEL)
            * share(self.layout == measured.layout, OTHER_LAYOUT)
            * share(self.format == measured.format, OTHER_FORMAT)
            * share(self.training == measured.training, OTHER_TRAINING)
            * share(self.memory == measured.memory, OTHER_MEMORY)
            * share((self.devices == 1) == (measured.devices == 1), ALONE_OR_NOT)
            * (-devices / DEVICES
                - sizes / DOUBLINGS
                - self.shares.apart(&measured.shares) / PARTS
                - self.rates.doublings(&measured.rates) / RATES)
                .exp()
    }

    fn device_likeness(&self, measured: &StepTraits) -> f64 {
        if self.device == measured.device {
            1.0
        } else if self.generation == measured.generation {
            OTHER_DEVICE_OF_GENERATION
        } else if self.maker() == measured.maker() {
            OTHER_GENERATION
        } else {
            OTHER_MAKER
        }
    }

    fn stack_likeness(&self, measured: &StepTraits) -> f64 {
        if self.stack == measured.stack {
            1.0
        } else if family(&self.stack) == family(&measured.stack) {
            OTHER_RELEASE
        } else {
            OTHER_SOFTWARE
        }
    }
}

/// The software of a stack: its name without the release.
fn family(stack: &str) -> Option<&str> {
    stack.split('-').next()
}
