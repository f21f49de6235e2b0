//! The source of randomness for everything that a simulation runs.
//!
//! Its random values (uids, generated names, ports, jitter) are drawn here: from the machine's randomness, or from a
//! seed once [`seed`] was called, so that a simulation is repeatable. Third-party code that does not call this module
//! (the keys of `std`'s hash maps, the order in which `tokio::select!` polls) asks the C library for random bytes; the
//! program's own `getrandom` (`src/lab/entropy.rs`) serves these with [`fill_seeded`].
//!
//! Architecture Invariant: nothing else that the simulator runs draws random values (`tests/it/layers/randomness.rs`).

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng, TryRng};

/// `None`: the machine's randomness.
static SEEDED: Mutex<Option<SmallRng>> = Mutex::new(None);
/// True if there is a seed. Checked first, without a lock: a forked child may need random bytes while one of its
/// parent's threads held the lock at the fork.
static IS_SEEDED: AtomicBool = AtomicBool::new(false);

/// Runs `draw` with the seeded generator, if there is one.
fn seeded<T>(draw: impl FnOnce(&mut SmallRng) -> T) -> Option<T> {
    if !IS_SEEDED.load(Ordering::Acquire) {
        return None;
    }
    SEEDED.lock().as_mut().map(draw)
}

/// Draws all randomness of this process from `seed` from now on: for a process that only simulates, because keys and
/// names become predictable.
pub fn seed(seed: u64) {
    *SEEDED.lock() = Some(SmallRng::seed_from_u64(seed));
    IS_SEEDED.store(true, Ordering::Release);
}

/// Fills the buffer from the seeded generator; returns false, and does nothing, if there is none.
pub fn fill_seeded(buffer: &mut [u8]) -> bool {
    seeded(|random| random.fill_bytes(buffer)).is_some()
}

/// Returns a generator, which draws from the seed if [`seed`] was called.
pub fn rng() -> Random {
    Random
}

/// Returns a random value: a number, or an array of numbers.
pub fn random<T>() -> T
where
    rand::distr::StandardUniform: rand::distr::Distribution<T>,
{
    rand::RngExt::random(&mut Random)
}

/// Returns a new uid as text: a UUID of version 4.
pub fn uuid() -> String {
    uuid::Builder::from_random_bytes(random()).into_uuid().to_string()
}

/// The generator of [`rng`].
#[derive(Clone, Copy, Debug)]
pub struct Random;

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(seeded(Rng::next_u32).unwrap_or_else(|| rand::rng().next_u32()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(seeded(Rng::next_u64).unwrap_or_else(|| rand::rng().next_u64()))
    }

    fn try_fill_bytes(&mut self, buffer: &mut [u8]) -> Result<(), Infallible> {
        if !fill_seeded(buffer) {
            rand::rng().fill_bytes(buffer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed is global to the process: one test covers everything that depends on it.
    #[test]
    fn the_same_seed_gives_the_same_uids_fault_3() {
        assert_ne!(uuid(), uuid(), "without a seed");
        let generate = |with| {
            seed(with);
            (uuid(), random::<u64>())
        };
        let (first, again, other) = (generate(7), generate(7), generate(8));
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_eq!((first.0.len(), &first.0[14..15]), (36, "4"));
    }
}
