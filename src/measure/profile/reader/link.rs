//! Links within a profile: device events and their launches, collectives and waits.

use std::collections::BTreeMap;

use super::EventReader;
use crate::profile::classes::Family;

impl EventReader<'_> {
    /// Gives each device event its launch and its kind of communication, whatever the order of the file.
    pub(super) fn link(&mut self) {
        let mut order: Vec<u32> = (0..self.calls.len() as u32).collect();
        order.sort_by_key(|&c| {
            let call = &self.calls[c as usize].0;
            (call.thread, call.start, call.end)
        });
        let mut place = vec![0_u32; order.len()];
        for (at, &call) in order.iter().enumerate() {
            place[call as usize] = at as u32;
        }
        self.on_device.sort_unstable();
        for pending in &mut self.device {
            let call = pending.correlation.and_then(|c| self.call_of.get(&c)).copied();
            pending.event.launch = call.map(|c| place[c as usize]);
            if pending.event.family != Family::Communication {
                continue;
            }
            let event = &mut pending.event;
            let external = pending.external.or_else(|| self.calls[call? as usize].1);
            let by_operator = external.and_then(|id| self.by_external.get(&id)).copied();
            event.collective = event.collective.or(by_operator).or_else(|| {
                let before = self.on_device.partition_point(|m| (m.0, m.1) <= (event.stream, event.start));
                let mark = self.on_device[..before].last()?;
                (mark.0 == event.stream && mark.2 >= event.end).then_some(mark.3)
            });
            let named = event.collective.map(|c| self.collectives.1[c as usize].name.as_str());
            let kernel = self.profile.names[event.name as usize].as_str();
            let kind = match named.map(|name| self.classes.kind(name)) {
                None | Some("other") => self.classes.kind(kernel),
                Some(kind) => kind,
            };
            event.kind = Some(self.kinds.of(kind.to_string()));
        }
        self.profile.calls = order.iter().map(|&c| self.calls[c as usize].0).collect();
        self.link_waits(&place);
    }

    /// A wait holds up what is launched on its stream next; it is for what was launched last on the other stream when
    /// the event was recorded.
    fn link_waits(&mut self, place: &[u32]) {
        let mut launches: BTreeMap<u32, Vec<(i64, u32)>> = BTreeMap::new();
        for event in self.device.iter().map(|pending| &pending.event) {
            if let Some(launch) = event.launch {
                let start = self.profile.calls[launch as usize].start;
                launches.entry(event.stream).or_default().push((start, launch));
            }
        }
        launches.values_mut().for_each(|of_stream| of_stream.sort_unstable());
        let call = |correlation: i64| self.call_of.get(&correlation).map(|c| place[*c as usize]);
        for wait in &self.waits {
            let (Some(queued), Some(recorded)) = (call(wait.queued), call(wait.recorded)) else { continue };
            let (Some(mine), Some(theirs)) = (launches.get(&wait.stream), launches.get(&wait.on)) else {
                continue;
            };
            let [queued, recorded] = [queued, recorded].map(|c| self.profile.calls[c as usize].start);
            let held = mine.get(mine.partition_point(|launch| launch.0 < queued));
            let awaited = theirs[..theirs.partition_point(|launch| launch.0 <= recorded)].last();
            if let (Some((_, held)), Some((_, awaited))) = (held, awaited) {
                self.profile.waits.entry(*held).or_default().push(*awaited);
            }
        }
    }
}
