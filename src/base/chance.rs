//! The only source of chance.
//!
//! Everything that is drawn by lot (uids, generated names, ports, jitter) is drawn here: of the machine's own chance, or
//! of a seed once [`seed`] was called, so that the simulator runs the same again. What does not ask us, because it is
//! none of our code (the keys of `std`'s hash maps, the order in which `tokio::select!` looks), asks the C library for
//! random bytes; the program's own `getrandom` (`src/entropy.rs`) answers by [`fill_seeded`].
//!
//! Architecture Invariant: nothing else in what the simulator runs draws by lot (`tests/it/layers/chance.rs`).

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

/// None: the machine's own chance.
static SEEDED: Mutex<Option<SmallRng>> = Mutex::new(None);
/// Whether there is a seed: asked first, without a lock. A forked child may want random bytes, and one of its parent's
/// threads may have held the lock at that moment.
static IS_SEEDED: AtomicBool = AtomicBool::new(false);

/// The generator, where chance follows from a seed.
fn seeded<T>(draw: impl FnOnce(&mut SmallRng) -> T) -> Option<T> {
    if !IS_SEEDED.load(Ordering::Acquire) {
        return None;
    }
    SEEDED.lock().as_mut().map(draw)
}

/// From now on all chance of this process follows from `seed`: for a process that does nothing but simulate. Keys and
/// names that are drawn afterwards can be foretold.
pub fn seed(seed: u64) {
    *SEEDED.lock() = Some(SmallRng::seed_from_u64(seed));
    IS_SEEDED.store(true, Ordering::Release);
}

/// Fills the buffer where chance follows from a seed; else nothing happens, and false is the answer.
pub fn fill_seeded(buffer: &mut [u8]) -> bool {
    seeded(|random| random.fill_bytes(buffer)).is_some()
}

/// A generator: what it gives follows from the seed where there is one.
pub fn rng() -> Chance {
    Chance
}

/// A value by chance: a number, or an array of them.
pub fn random<T>() -> T
where
    rand::distr::StandardUniform: rand::distr::Distribution<T>,
{
    rand::Rng::random(&mut Chance)
}

/// A new uid as text: a UUID of version 4.
pub fn uuid() -> String {
    uuid::Builder::from_random_bytes(random()).into_uuid().to_string()
}

/// The generator of [`rng`].
#[derive(Clone, Copy, Debug)]
pub struct Chance;

impl RngCore for Chance {
    fn next_u32(&mut self) -> u32 {
        seeded(RngCore::next_u32).unwrap_or_else(|| rand::rng().next_u32())
    }

    fn next_u64(&mut self) -> u64 {
        seeded(RngCore::next_u64).unwrap_or_else(|| rand::rng().next_u64())
    }

    fn fill_bytes(&mut self, buffer: &mut [u8]) {
        if !fill_seeded(buffer) {
            rand::rng().fill_bytes(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed is the process': one test for all that depends on it.
    #[test]
    fn the_same_seed_gives_the_same_uids_fault_3() {
        assert_ne!(uuid(), uuid(), "without a seed");
        let drawn = |with| {
            seed(with);
            (uuid(), random::<u64>())
        };
        let (first, again, other) = (drawn(7), drawn(7), drawn(8));
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_eq!((first.0.len(), &first.0[14..15]), (36, "4"));
    }
}
