//! Kernels and copies share the bandwidth of device memory.
//!
//! A kernel that moves b bytes in t seconds uses b/t of it while it runs. Where copies on the same memory leave it
//! less, it gets its max–min fair share as one more flow, and goes on at share/(b/t) of its pace. Kernels take part
//! only while a copy is on their device's memory (or where kernels alone can fill it); all others never touch the
//! solver.

use super::Listener;
use super::code::{Code, NO_SLOT, NONE};
use super::event_loop::Play;
use super::ranks::RUNNING;
use super::sharing::FlowId;
use crate::ids::ResourceId;
use crate::program::World;
use crate::units::Time;

/// Whose kernels share which memory.
#[derive(Debug, Default)]
pub(super) struct DeviceMemory {
    on: bool,
    /// By resource: whether kernels fill it without any copy.
    filled: Vec<bool>,
    /// By rank: the resource, if its kernels can feel it.
    of_rank: Vec<Option<ResourceId>>,
    /// By resource: the ranks whose kernels use it, as a stretch of `ranks`.
    first: Vec<u32>,
    ranks: Vec<u32>,
    /// By path: whether such a resource is on it.
    touches: Vec<bool>,
    /// By rank: what sharing has added to its kernels so far.
    pub added: Vec<Time>,
}

impl DeviceMemory {
    /// Off altogether when no kernel can feel a memory: by resource, whether one can.
    pub fn new(world: &World, felt: &[bool]) -> Self {
        let on = felt.contains(&true);
        if !on {
            return DeviceMemory::default();
        }
        let of_rank: Vec<Option<ResourceId>> = world
            .ranks
            .iter()
            .map(|rank| world.uses[rank.memory.range()].iter().map(|u| u.0).find(|r| felt[r.index()]))
            .collect();
        let mut first = vec![0u32; felt.len() + 1];
        of_rank.iter().flatten().for_each(|r| first[r.index() + 1] += 1);
        (0..felt.len()).for_each(|r| first[r + 1] += first[r]);
        let mut next = first.clone();
        let mut ranks = vec![0; first[felt.len()] as usize];
        for (rank, r) in (0..).zip(&of_rank).filter_map(|(rank, r)| Some((rank, (*r)?))) {
            ranks[next[r.index()] as usize] = rank;
            next[r.index()] += 1;
        }
        let touches =
            |path: &crate::program::Span| world.uses[path.range()].iter().any(|u| felt[u.0.index()]);
        let touches = world.paths.iter().map(touches).collect();
        let (filled, added) = (world.filled_by_kernels(), vec![Time::ZERO; world.ranks.len()]);
        DeviceMemory { on, filled, of_rank, first, ranks, touches, added }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }
}

impl<O: Listener + ?Sized> Play<'_, O> {
    /// The rate of the kernel at the head of stream `s`, in bytes per second; 0 if it does not share memory.
    fn memory_rate(&self, s: u32) -> f64 {
        let stream = &self.streams[s as usize];
        let code = self.code[stream.cursor as usize];
        if code.slot != NO_SLOT || self.device_memory.of_rank[stream.rank as usize].is_none() {
            return 0.0;
        }
        let rank = self.ranks[stream.rank as usize];
        let rate = f64::from(self.compiled[rank.program as usize].program.ops[code.op as usize].memory_rate);
        if !rank.factors.vary {
            return rate;
        }
        // A kernel that takes longer moves the same bytes.
        let time = rank.factors.time_of(&self.world.jitter, &code);
        rate * (code.value as f64 / time.max(1) as f64)
    }

    /// A kernel has started: it shares its device's memory if a copy is there, or if kernels alone can fill that.
    pub fn kernel_uses_memory(&mut self, s: u32, code: &Code) {
        let r = self.streams[s as usize].rank;
        let Some(resource) = self.device_memory.of_rank[r as usize] else { return };
        assert_eq!(code.slot, NO_SLOT);
        if self.device_memory.filled[resource.index()] || self.comms.sharing.is_used(resource) {
            self.share_memory(s);
        }
    }

    /// A flow has come to a path: kernels that run on the memories there now share them.
    pub fn flow_uses_memory(&mut self, path: u32) {
        if !self.device_memory.touches[path as usize] {
            return;
        }
        for at in self.world.paths[path as usize].range() {
            let resource = self.world.uses[at].0.index();
            for i in self.device_memory.first[resource]..self.device_memory.first[resource + 1] {
                let rank = self.ranks[self.device_memory.ranks[i as usize] as usize];
                for s in rank.all_streams() {
                    if self.streams[s as usize].blocked == RUNNING && self.kernel(s).flow == NONE {
                        self.share_memory(s);
                    }
                }
            }
        }
    }

    /// Makes a flow of the running kernel of stream `s`.
    fn share_memory(&mut self, s: u32) {
        let wanted = self.memory_rate(s);
        if wanted <= 0.0 {
            return;
        }
        let rank = self.streams[s as usize].rank;
        let span = self.world.ranks[rank as usize].memory;
        let limit = self.kernel(s).limit(wanted);
        let path = span.start..span.start + span.len;
        let (flow, free) = self.comms.sharing.insert(self.now, 0.0, limit, path);
        self.comms.carry_kernel(flow, s);
        self.kernel_mut(s).flow = flow;
        if free.is_some() {
            self.set_share(s, self.comms.sharing.rate(flow), wanted);
        }
    }

    /// The kernel of stream `s` has been given `rate` bytes per second of its memory.
    pub fn memory_share(&mut self, s: u32, rate: f64) {
        let wanted = self.memory_rate(s);
        self.set_share(s, rate, wanted);
    }

    fn set_share(&mut self, s: u32, rate: f64, wanted: f64) {
        let kernel = self.kernel(s);
        let share = if rate < kernel.limit(wanted) { rate / wanted } else { 0.0 };
        if share.to_bits() != kernel.share.to_bits() {
            self.retime(s, |kernel| kernel.share = share);
        }
    }

    /// Other units are taken beside the kernel of stream `s`, which shares its memory.
    pub fn limit_changed(&mut self, s: u32, flow: FlowId) {
        let wanted = self.memory_rate(s);
        let limit = self.kernel(s).limit(wanted);
        if let Some(rate) = self.comms.sharing.set_limit(flow, limit) {
            self.set_share(s, rate, wanted);
        }
    }

    /// Lets time pass for the running kernel of stream `s`, changes its pace, and moves its end.
    pub fn retime(&mut self, s: u32, change: impl FnOnce(&mut super::interference::RunningKernel)) {
        let now = self.now;
        let kernel = self.kernel_mut(s);
        let added = kernel.pass(now);
        change(kernel);
        kernel.ends = now + Time(kernel.span());
        // One that comes too early finds out that there is time left (`ends_later`).
        let sooner = (kernel.ends < kernel.due).then_some(kernel.ends);
        if let Some(sum) = self.device_memory.added.get_mut(self.streams[s as usize].rank as usize) {
            *sum += added;
        }
        if let Some(ends) = sooner {
            self.kernel_due(s, ends);
        }
    }

    /// The kernel of stream `s` ends: it leaves its memory.
    pub fn leave_memory(&mut self, s: u32) {
        let now = self.now;
        let kernel = self.kernel_mut(s);
        let flow = std::mem::replace(&mut kernel.flow, NONE);
        if flow != NONE {
            let added = kernel.pass(now);
            self.device_memory.added[self.streams[s as usize].rank as usize] += added;
            self.comms.sharing.remove(flow);
        }
    }
}
