//! Reports the steps of this process to an observer (FAULT-3). The observer is a simulation, which checks that time
//! passes between steps, or a test that kills the process at a step. Without an observer, as in every other process, a
//! step costs one load.

use std::fmt;
use std::sync::OnceLock;

type Observer = Box<dyn Fn(fmt::Arguments<'_>) + Send + Sync>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Calls `observer` at each step from now on, on the thread that takes the step; it must not block. Returns false if
/// there is an observer already, which stays.
pub fn observe(observer: impl Fn(fmt::Arguments<'_>) + Send + Sync + 'static) -> bool {
    OBSERVER.set(Box::new(observer)).is_ok()
}

/// Reports that a step is about to be taken; formats the text only if there is an observer.
pub fn record_step(step: fmt::Arguments<'_>) {
    if let Some(observer) = OBSERVER.get() {
        observer(step);
    }
}
