//! Grid of one to six axes, each a ring or a line; dimension-order routing.
//!
//! Place `(x, y, z)` of a torus `X×Y×Z` has index `x + X (y + Y z)`. A transfer goes along the first axis first, the
//! shorter way round; where both ways are equal (half of an even ring) even places go up and odd ones down, so that
//! opposite exchanges load both directions alike. No transfer turns back, so every route is a shortest one.

use petgraph::graph::NodeIndex;

use super::graph::{LinkClass, LinkHop, Net};
use stepsim_spec::topology::{Torus as TorusSpec, Wrap};

/// The links of all tori of a machine.
#[derive(Clone, Debug)]
pub(super) struct TorusLinks {
    pub dims: Vec<u32>,
    pub wrap: Vec<bool>,
    places: u32,
    /// `up[device * axes + axis]`: hop to the next place along the axis, or none.
    up: Vec<LinkHop>,
}

/// The axes that close to a ring.
pub(super) fn wraps(dims: &[u32], wrap: &Wrap) -> Vec<bool> {
    let cubes = |n: u32| dims.iter().all(|d| d.is_multiple_of(n));
    dims.iter()
        .enumerate()
        .map(|(axis, &length)| {
            length > 2
                && match wrap {
                    Wrap::Always => true,
                    Wrap::Never => false,
                    Wrap::AtLength(n) => length == *n,
                    Wrap::CubesOf(n) => cubes(*n),
                    Wrap::Axes(flags) => flags.get(axis).copied().unwrap_or(false),
                }
        })
        .collect()
}

impl TorusLinks {
    /// Adds the links of `tori` tori whose devices are the first vertices of the net.
    pub fn build(spec: &TorusSpec, tori: u32, net: &mut Net) -> TorusLinks {
        let class = net.link_class(LinkClass::of(&spec.link));
        let wrap = wraps(&spec.dims, &spec.wrap);
        let places: u32 = spec.dims.iter().product();
        let mut torus = TorusLinks { dims: spec.dims.clone(), wrap, places, up: Vec::new() };
        torus.up.reserve(places as usize * tori as usize * torus.dims.len());
        for device in 0..tori * places {
            for axis in 0..torus.dims.len() {
                let hop = torus.next(device, axis).map_or(LinkHop::NONE, |next| {
                    net.link(NodeIndex::new(device as usize), NodeIndex::new(next as usize), class)
                });
                torus.up.push(hop);
            }
        }
        torus
    }

    fn stride(&self, axis: usize) -> u32 {
        self.dims[..axis].iter().product()
    }
    pub fn coordinate(&self, device: u32, axis: usize) -> u32 {
        device % self.places / self.stride(axis) % self.dims[axis]
    }
    /// The next device along an axis.
    fn next(&self, device: u32, axis: usize) -> Option<u32> {
        let (at, stride) = (self.coordinate(device, axis), self.stride(axis));
        match at + 1 < self.dims[axis] {
            true => Some(device + stride),
            false => self.wrap[axis].then(|| device - at * stride),
        }
    }
    /// The device before along an axis.
    fn previous(&self, device: u32, axis: usize) -> Option<u32> {
        let (at, stride) = (self.coordinate(device, axis), self.stride(axis));
        match at > 0 {
            true => Some(device - stride),
            false => self.wrap[axis].then(|| device + (self.dims[axis] - 1) * stride),
        }
    }
    /// The neighbour up or down an axis and the hop to it.
    pub fn step(&self, device: u32, axis: usize, up: bool) -> Option<(u32, LinkHop)> {
        let axes = self.dims.len();
        if up {
            let next = self.next(device, axis)?;
            Some((next, self.up[device as usize * axes + axis]))
        } else {
            let previous = self.previous(device, axis)?;
            Some((previous, self.up[previous as usize * axes + axis].back()))
        }
    }
    /// The hops between two devices of one torus.
    pub fn route(&self, from: u32, to: u32, cross: &mut impl FnMut(LinkHop)) {
        let mut at = from;
        for axis in 0..self.dims.len() {
            let (here, there, length) =
                (self.coordinate(at, axis), self.coordinate(to, axis), self.dims[axis]);
            let ahead = (there + length - here) % length;
            let up = match self.wrap[axis] {
                true if 2 * ahead == length => here.is_multiple_of(2),
                true => 2 * ahead < length,
                false => there > here,
            };
            while self.coordinate(at, axis) != there {
                let Some((next, hop)) = self.step(at, axis, up) else {
                    return;
                };
                cross(hop);
                at = next;
            }
        }
    }
}
