//! What this process does, step by step, for whoever looks (FAULT-3): a simulation, which asks whether time passes between.
//! Nobody looks at any other process, and then a step costs one load.

use std::fmt;
use std::sync::OnceLock;

type Observer = Box<dyn Fn(fmt::Arguments<'_>) + Send + Sync>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Calls `observer` at each step from now on, in the thread that takes it; it must not block. False when somebody looks
/// already, who goes on.
pub fn observe(observer: impl Fn(fmt::Arguments<'_>) + Send + Sync + 'static) -> bool {
    OBSERVER.set(Box::new(observer)).is_ok()
}

/// A step is about to be taken; the words are made only if somebody looks.
pub fn note(step: fmt::Arguments<'_>) {
    if let Some(observer) = OBSERVER.get() {
        observer(step);
    }
}
