//! Numbers as short names of what policies need in the kernel: sets of peers, address ranges and ports.

use std::collections::HashMap;
use std::hash::Hash;

use network_policy::{Block, Isolation, Peers, PortRange, Ports, Ranges, SetId};

/// Reference-counted numbers of values in use. A number is not reused until four billion have been given out.
#[derive(Debug)]
pub(super) struct RefCountedIds<T> {
    ids: HashMap<T, (u32, usize)>,
    last: u32,
}

impl<T> Default for RefCountedIds<T> {
    fn default() -> Self {
        Self { ids: HashMap::new(), last: 0 }
    }
}

impl<T: Clone + Eq + Hash> RefCountedIds<T> {
    /// Returns the number of a value in use.
    pub(super) fn number(&self, of: &T) -> Option<u32> {
        self.ids.get(of).map(|(number, _)| *number)
    }

    /// Adds a reference; returns the number if the value is new.
    pub(super) fn acquire(&mut self, of: &T) -> Option<u32> {
        if let Some((_, users)) = self.ids.get_mut(of) {
            *users += 1;
            return None;
        }
        self.last = self.last.wrapping_add(1);
        self.ids.insert(of.clone(), (self.last, 1));
        Some(self.last)
    }

    /// Removes a reference; returns the number if it was the last one.
    pub(super) fn release(&mut self, of: &T) -> Option<u32> {
        let (number, users) = self.ids.get_mut(of)?;
        *users -= 1;
        let (number, is_used) = (*number, *users > 0);
        if is_used {
            return None;
        }
        self.ids.remove(of);
        Some(number)
    }
}

/// Numbers of everything that rules refer to.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Sets of peers.
    pub(super) sets: RefCountedIds<SetId>,
    /// Address ranges.
    pub(super) blocks: RefCountedIds<Block>,
    /// Sets of more than one port.
    pub(super) ports: RefCountedIds<Ranges>,
}

/// Sets that rules need, or no longer need, by number.
#[derive(Debug, Default)]
pub(super) struct SetReferences {
    pub(super) blocks: Vec<(u32, Block)>,
    pub(super) ports: Vec<(u32, Ranges)>,
}

impl Names {
    /// Acquires the sets that an isolation's rules refer to; adds those that are new to `needed`.
    pub(super) fn acquire(&mut self, isolation: &Isolation, needed: &mut SetReferences) {
        for (peers, ports) in &isolation.peers {
            if let Peers::Block(block) = peers {
                needed.blocks.extend(self.blocks.acquire(block).map(|number| (number, block.clone())));
            }
            for ranges in listed(ports) {
                needed.ports.extend(self.ports.acquire(ranges).map(|number| (number, ranges.clone())));
            }
        }
    }

    /// Releases the sets that an isolation's rules referred to; adds those without references to `needless`.
    pub(super) fn release(&mut self, isolation: &Isolation, needless: &mut SetReferences) {
        for (peers, ports) in &isolation.peers {
            if let Peers::Block(block) = peers {
                needless.blocks.extend(self.blocks.release(block).map(|number| (number, block.clone())));
            }
            for ranges in listed(ports) {
                needless.ports.extend(self.ports.release(ranges).map(|number| (number, ranges.clone())));
            }
        }
    }
}

/// Returns the ports that need a set: more than one, and not all of a protocol.
fn listed(ports: &Ports) -> impl Iterator<Item = &Ranges> {
    let all: &[Ranges] = match ports {
        Ports::All => &[],
        Ports::Some(all) => all,
    };
    let is_plain = |ranges: &Ranges| {
        let mut all = ranges.iter();
        match (all.next(), all.next()) {
            (Some(range), None) => range.first == range.last || *range == PortRange::every(range.protocol),
            _ => false,
        }
    };
    all.iter().filter(move |ranges| !is_plain(ranges))
}
