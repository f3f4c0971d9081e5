//! Sites joined by long-distance links: every site has a gateway above its highest switches.
//!
//! Latency of a link = its own + length × 4.9 µs/km (light in fibre, refractive index 1.468).

use petgraph::graph::NodeIndex;

use super::clos::ClosSwitches;
use super::dragonfly::pair;
use super::graph::{LinkClass, LinkHop, Net};
use stepsim_core::units::Time;
use stepsim_spec::topology::{Join, Sites};

#[derive(Clone, Debug)]
pub(super) struct Wan {
    sites: u32,
    join: Join,
    first_link: LinkHop,
    /// Hop of the first link from a highest switch to its gateway, and highest switches of a site.
    first_exit: LinkHop,
    tops: u32,
}

impl Wan {
    /// Adds the gateways and their links.
    pub fn build(spec: &Sites, clos: &ClosSwitches, net: &mut Net) -> Wan {
        let n = spec.count;
        let mut class = LinkClass::of(&spec.link);
        class.latency += Time::from_us(spec.link_km * spec.us_per_km);
        // The way up to the gateway never limits: it is as wide as all links of the gateway together.
        let wide = class.times(f64::from(n.max(2))).instant();
        let exit = net.link_class(LinkClass { half: false, combined: None, ..wide });
        let class = net.link_class(class);
        let gateway = net.switch_class("gateway", true, 0.0);
        let gateways: Vec<NodeIndex<u32>> = (0..n).map(|site| net.switch(gateway, site)).collect();
        let first_exit = LinkHop(2 * net.graph.edge_count() as u32);
        let mut tops = 0;
        for (site, gateway) in gateways.iter().enumerate() {
            tops = 0;
            for top in clos.tops(site as u32) {
                net.link(top, *gateway, exit);
                tops += 1;
            }
        }
        let first_link = LinkHop(2 * net.graph.edge_count() as u32);
        let mut join = |a: u32, b: u32| net.link(gateways[a as usize], gateways[b as usize], class);
        for a in 0..n {
            let end = if spec.join == Join::FullMesh { n } else { n.min(a + 2) };
            for b in a + 1..end {
                join(a, b);
            }
        }
        if spec.join == Join::Ring && n > 2 {
            join(n - 1, 0);
        }
        Wan { sites: n, join: spec.join, first_link, first_exit, tops }
    }

    /// The hop from a highest switch of a site (by its number there) to the gateway.
    fn exit(&self, site: u32, top: u32) -> LinkHop {
        self.first_exit.plus(site * self.tops + top)
    }

    /// The hops from a highest switch of one site to one of another.
    pub fn route(&self, from: (u32, u32), to: (u32, u32), cross: &mut impl FnMut(LinkHop)) {
        cross(self.exit(from.0, from.1));
        let n = self.sites;
        let (a, b) = (from.0, to.0);
        if self.join == Join::FullMesh {
            let hop = self.first_link.plus(pair(a.min(b), a.max(b), n));
            cross(if a < b { hop } else { hop.back() });
        } else {
            let ahead = (b + n - a) % n;
            let ring = self.join == Join::Ring && n > 2;
            let up = match ring {
                true if 2 * ahead == n => a.is_multiple_of(2),
                true => 2 * ahead < n,
                false => b > a,
            };
            let steps = if up { ahead } else { n - ahead };
            for i in 0..steps {
                match up {
                    true => cross(self.first_link.plus((a + i) % n)),
                    false => cross(self.first_link.plus((a + n - i - 1) % n).back()),
                }
            }
        }
        cross(self.exit(to.0, to.1).back());
    }
}
