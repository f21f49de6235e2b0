//! Short names of what policies need in the kernel: a number for each set, and for what is left of pods.

use std::collections::HashMap;
use std::hash::Hash;

use crate::policy::{Block, Isolation, Peers, PortRange, Ports, Ranges, SetId};

/// Numbers of what is used, each with how often. None is given twice, as long as there are four billion.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    known: HashMap<T, (u32, usize)>,
    last: u32,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { known: HashMap::new(), last: 0 }
    }
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    /// The number of what is used.
    pub(super) fn number(&self, of: &T) -> Option<u32> {
        self.known.get(of).map(|(number, _)| *number)
    }

    /// One more uses it: its number, if it is a new one.
    pub(super) fn acquire(&mut self, of: &T) -> Option<u32> {
        if let Some((_, users)) = self.known.get_mut(of) {
            *users += 1;
            return None;
        }
        self.last = self.last.wrapping_add(1);
        self.known.insert(of.clone(), (self.last, 1));
        Some(self.last)
    }

    /// One uses it no more: its number, if it was the last one.
    pub(super) fn release(&mut self, of: &T) -> Option<u32> {
        let (number, users) = self.known.get_mut(of)?;
        *users -= 1;
        let (number, is_used) = (*number, *users > 0);
        if is_used {
            return None;
        }
        self.known.remove(of);
        Some(number)
    }
}

/// Names of what rules name.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Sets of peers.
    pub(super) sets: Numbered<SetId>,
    /// Blocks of addresses.
    pub(super) blocks: Numbered<Block>,
    /// Ports that are more than one.
    pub(super) ports: Numbered<Ranges>,
}

/// Sets that rules need, or need no more, by number.
#[derive(Debug, Default)]
pub(super) struct Needed {
    pub(super) blocks: Vec<(u32, Block)>,
    pub(super) ports: Vec<(u32, Ranges)>,
}

impl Names {
    /// Rules of this are written: the sets that they need and nobody has needed before.
    pub(super) fn acquire(&mut self, isolation: &Isolation, needed: &mut Needed) {
        for (peers, ports) in &isolation.peers {
            if let Peers::Block(block) = peers {
                needed.blocks.extend(self.blocks.acquire(block).map(|number| (number, block.clone())));
            }
            for ranges in listed(ports) {
                needed.ports.extend(self.ports.acquire(ranges).map(|number| (number, ranges.clone())));
            }
        }
    }

    /// Rules of this are gone: the sets that nobody needs any more.
    pub(super) fn release(&mut self, isolation: &Isolation, needless: &mut Needed) {
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

/// Ports that a rule needs a set for: more than one, and not every one of a protocol.
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
