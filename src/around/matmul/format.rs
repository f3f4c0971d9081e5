//! Number formats of the arrays of a product: the formats of training, and 8-bit integers.

use std::collections::BTreeMap;

use stepsim_core::units::FlopRate;
use stepsim_spec::Device;
use stepsim_spec::workload::Dtype;

/// A number format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFormat {
    /// One of training.
    Float(Dtype),
    /// 8-bit integers.
    Int8,
}

impl NumberFormat {
    /// Every format.
    pub fn all() -> impl Iterator<Item = NumberFormat> {
        Dtype::ALL.into_iter().map(NumberFormat::Float).chain([NumberFormat::Int8])
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            NumberFormat::Float(format) => format.name(),
            NumberFormat::Int8 => "int8",
        }
    }
    /// Bytes of one element.
    pub fn bytes(self) -> f64 {
        match self {
            NumberFormat::Float(format) => format.bytes(),
            NumberFormat::Int8 => 1.0,
        }
    }
    /// A device's dense peak in it.
    pub fn peak(self, device: &Device) -> Option<FlopRate> {
        match self {
            NumberFormat::Float(format) => device.peak(format),
            NumberFormat::Int8 => device.peak_dense_tflops.int8.map(FlopRate::from_tflops),
        }
    }
}

/// The formats of the arrays of a product.
#[derive(Clone, Debug, PartialEq)]
pub struct Formats {
    /// Of arrays that are not named.
    all: NumberFormat,
    /// By name of the array.
    named: BTreeMap<String, NumberFormat>,
}

impl Formats {
    /// Reads `fp8`, or `A=int8,W=int8,C=bf16`; arrays that are not named are in bf16.
    ///
    /// # Errors
    /// A format that is none.
    pub fn parse(text: &str) -> Result<Formats, String> {
        let known = || NumberFormat::all().map(NumberFormat::name).collect::<Vec<_>>().join(", ");
        let format = |name: &str| {
            let found = NumberFormat::all().find(|format| format.name() == name);
            found.ok_or_else(|| format!("allowed: {}; one for all, or A=int8,W=int8,C=bf16", known()))
        };
        let mut formats = Formats { all: NumberFormat::Float(Dtype::Bf16), named: BTreeMap::new() };
        for part in text.split(',') {
            match part.split_once('=') {
                None => formats.all = format(part)?,
                Some((array, name)) => drop(formats.named.insert(array.trim().to_string(), format(name)?)),
            }
        }
        Ok(formats)
    }
    /// That of an array; a gradient has its array's.
    pub fn of(&self, array: &str) -> NumberFormat {
        let named = self.named.get(array).or_else(|| self.named.get(array.strip_prefix('d')?));
        named.copied().unwrap_or(self.all)
    }
    /// An array that is named and that is not one of these.
    pub fn unknown(&self, arrays: &[&str]) -> Option<&str> {
        self.named.keys().map(String::as_str).find(|name| !arrays.contains(name))
    }
}
