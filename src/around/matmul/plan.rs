//! The plan of a product, by the rules of the module's page.

use std::collections::BTreeMap;

use super::parse::{Array, Dim, Statement};
use stepsim_core::declare::named;
use stepsim_fabric::collective::Op;
use stepsim_spec::SpecError;

named! {
    /// The treatment of a contracted dimension that is cut on one side only.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Strategy {
        /// The side that is cut is gathered.
        Gather = "gather",
        /// The other side is sliced, and the result reduced.
        Reduce = "reduce",
    }
}

/// A collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductCollective {
    /// The operation.
    pub op: Op,
    /// To which array.
    pub array: String,
    /// Over which mesh axes.
    pub axes: Vec<char>,
    /// Bytes that a device holds after a gather, before everything else.
    pub bytes: u64,
}

/// A product as devices carry it out.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardedProduct {
    /// How.
    pub strategy: Strategy,
    /// Collectives before the local product.
    pub before: Vec<ProductCollective>,
    /// Floating-point operations of one device.
    pub flops: f64,
    /// Bytes of one device's operands and result of the local product, by name.
    pub arrays: Vec<(String, f64)>,
    /// Collectives after it.
    pub after: Vec<ProductCollective>,
}

impl ShardedProduct {
    /// Bytes of all of them.
    pub fn memory_bytes(&self) -> f64 {
        self.arrays.iter().map(|(_, bytes)| bytes).sum()
    }
    /// All collectives in order.
    pub fn steps(&self) -> impl Iterator<Item = &ProductCollective> {
        self.before.iter().chain(&self.after)
    }
}

/// Sizes of dimensions and of mesh axes, and bytes of an element of an array.
struct ProductSizes<'a> {
    dims: &'a BTreeMap<String, u64>,
    mesh: &'a [(char, u32)],
    element: &'a dyn Fn(&str) -> f64,
}

impl ProductSizes<'_> {
    fn cuts(&self, axes: &[char]) -> u64 {
        self.mesh.iter().filter(|m| axes.contains(&m.0)).map(|m| u64::from(m.1)).product()
    }
    /// Elements of a dimension on one device.
    fn local(&self, dim: &Dim) -> f64 {
        (self.dims.get(&dim.name).copied().unwrap_or(1) / self.cuts(&dim.axes)) as f64
    }
    fn bytes(&self, array: &Array) -> f64 {
        array.dims.iter().map(|d| self.local(d)).product::<f64>() * (self.element)(&array.name)
    }
}

/// The ways to carry a product out: by gathering, and by reducing where that is another way. `element` gives the
/// bytes of an element of an array, by its name.
///
/// # Errors
/// A dimension without a size, a size that its axes do not divide, or a sum over axes that the result cannot hold.
pub fn plans(
    statement: &Statement,
    dims: &BTreeMap<String, u64>,
    mesh: &[(char, u32)],
    element: &dyn Fn(&str) -> f64,
) -> Result<Vec<ShardedProduct>, SpecError> {
    let sizes = ProductSizes { dims, mesh, element };
    check(statement, &sizes).map_err(|problem| SpecError::file(format!("`{statement}`"), problem))?;
    let gather = plan(statement, &sizes, Strategy::Gather);
    let reduce = plan(statement, &sizes, Strategy::Reduce);
    let mut plans = vec![gather];
    if reduce.before != plans[0].before || reduce.after != plans[0].after {
        plans.push(reduce);
    }
    Ok(plans)
}

fn check(s: &Statement, sizes: &ProductSizes<'_>) -> Result<(), String> {
    for dim in [&s.a, &s.b, &s.c].into_iter().flat_map(|array| &array.dims) {
        let Some(size) = sizes.dims.get(&dim.name) else {
            return Err(format!("the size of {} is not given", dim.name));
        };
        let cuts = sizes.cuts(&dim.axes);
        if *size == 0 || !size.is_multiple_of(cuts) {
            return Err(format!("{dim}: {size} is not a multiple of {cuts}"));
        }
    }
    let summed =
        |axis: &char| s.contracted().any(|name| [&s.a, &s.b].iter().any(|x| cut(x, name).contains(axis)));
    if let Some(axis) = s.c.unreduced.iter().find(|axis| !summed(axis)) {
        return Err(format!("{}: no sum runs over the axis {axis}", s.c));
    }
    Ok(())
}

/// The axes that cut a dimension of an array.
fn cut<'a>(array: &'a Array, name: &str) -> &'a [char] {
    array.dim(name).map_or(&[], |dim| &dim.axes)
}

fn plan(s: &Statement, sizes: &ProductSizes<'_>, strategy: Strategy) -> ShardedProduct {
    let (mut a, mut b) = (s.a.clone(), s.b.clone());
    let mut before = Vec::new();
    let shared: Vec<String> =
        s.a.dims.iter().filter(|d| s.b.dim(&d.name).is_some()).map(|d| d.name.clone()).collect();
    for name in &shared {
        let contracted = s.c.dim(name).is_none();
        align(&mut a, &mut b, name, contracted, strategy, sizes, &mut before);
        align(&mut b, &mut a, name, contracted, strategy, sizes, &mut before);
    }
    part_kept(&mut a, &mut b, &s.c, sizes, &mut before);

    let natural = |dim: &Dim| {
        let axes = if a.dim(&dim.name).is_some() { cut(&a, &dim.name) } else { cut(&b, &dim.name) };
        Dim { name: dim.name.clone(), axes: axes.to_vec() }
    };
    let mut c = Array { dims: s.c.dims.iter().map(natural).collect(), ..s.c.clone() };
    let summed: Vec<char> = s.contracted().flat_map(|name| cut(&a, name).to_vec()).collect();
    let arrays = [&a, &b, &c].map(|array| (array.name.clone(), sizes.bytes(array))).to_vec();
    let every = s.dims().into_iter().map(|name| a.dim(name).or(b.dim(name)).map_or(1.0, |d| sizes.local(d)));
    let flops = 2.0 * every.product::<f64>();
    let after = finish(&mut c, &s.c, &summed, sizes);
    ShardedProduct { strategy, before, flops, arrays, after }
}

/// Makes both sides agree on a shared dimension, where `one` is cut more finely than `other`.
fn align(
    one: &mut Array,
    other: &mut Array,
    name: &str,
    contracted: bool,
    strategy: Strategy,
    sizes: &ProductSizes<'_>,
    before: &mut Vec<ProductCollective>,
) {
    let extra: Vec<char> = cut(one, name).iter().copied().filter(|x| !cut(other, name).contains(x)).collect();
    if extra.is_empty() {
        return;
    }
    let free = extra.iter().all(|x| other.cut_by(*x).is_none());
    if contracted && strategy == Strategy::Reduce && free {
        if let Some(dim) = other.dims.iter_mut().find(|d| d.name == name) {
            dim.axes.extend(extra);
        }
        return;
    }
    gather(one, extra, sizes, before);
}

fn gather(array: &mut Array, axes: Vec<char>, sizes: &ProductSizes<'_>, steps: &mut Vec<ProductCollective>) {
    array.without(&axes);
    let bytes = sizes.bytes(array) as u64;
    steps.push(ProductCollective { op: Op::AllGather, array: array.name.clone(), axes, bytes });
}

/// Takes an axis that cuts a kept dimension of each side off one of them.
fn part_kept(
    a: &mut Array,
    b: &mut Array,
    wanted: &Array,
    sizes: &ProductSizes<'_>,
    before: &mut Vec<ProductCollective>,
) {
    let (mut off_a, mut off_b) = (Vec::new(), Vec::new());
    for (axis, _) in sizes.mesh {
        let (Some(of_a), Some(of_b)) = (a.cut_by(*axis), b.cut_by(*axis)) else { continue };
        if of_a.name == of_b.name {
            continue;
        }
        let goal = wanted.cut_by(*axis).map(|d| d.name.as_str());
        let take_a = match goal {
            Some(name) if name == of_a.name => false,
            Some(name) if name == of_b.name => true,
            _ => sizes.bytes(a) <= sizes.bytes(b),
        };
        if take_a { &mut off_a } else { &mut off_b }.push(*axis);
    }
    for (array, axes) in [(a, off_a), (b, off_b)] {
        if !axes.is_empty() {
            gather(array, axes, sizes, before);
        }
    }
}

/// From the local product to the wanted result.
fn finish(
    c: &mut Array,
    wanted: &Array,
    summed: &[char],
    sizes: &ProductSizes<'_>,
) -> Vec<ProductCollective> {
    let mut steps = Vec::new();
    let mut step = |op, axes: Vec<char>, bytes: f64| {
        steps.push(ProductCollective { op, array: wanted.name.clone(), axes, bytes: bytes as u64 });
    };
    let to_do: Vec<char> = summed.iter().copied().filter(|x| !wanted.unreduced.contains(x)).collect();
    let (scatter, reduce): (Vec<char>, Vec<char>) =
        to_do.into_iter().partition(|x| wanted.cut_by(*x).is_some());
    if !scatter.is_empty() {
        let bytes = sizes.bytes(c);
        for dim in &mut c.dims {
            dim.axes.extend(cut(wanted, &dim.name).iter().filter(|x| scatter.contains(x)));
        }
        step(Op::ReduceScatter, scatter, bytes);
    }
    if !reduce.is_empty() {
        step(Op::AllReduce, reduce, sizes.bytes(c));
    }
    let misplaced = |c: &Array, elsewhere: bool| -> Vec<char> {
        let of = |d: &Dim| {
            let goal = cut(wanted, &d.name).to_vec();
            d.axes.iter().copied().filter(move |x| !goal.contains(x)).collect::<Vec<char>>()
        };
        c.dims.iter().flat_map(of).filter(|x| wanted.cut_by(*x).is_some() == elsewhere).collect()
    };
    let moved = misplaced(c, true);
    if !moved.is_empty() {
        let bytes = sizes.bytes(c);
        c.without(&moved);
        for dim in &mut c.dims {
            dim.axes.extend(cut(wanted, &dim.name).iter().filter(|x| moved.contains(x)));
        }
        step(Op::AllToAll, moved, bytes);
    }
    let surplus = misplaced(c, false);
    if !surplus.is_empty() {
        c.without(&surplus);
        step(Op::AllGather, surplus, sizes.bytes(c));
    }
    steps
}
