//! Checks the rules that every history must follow, on the responses and events that clients and watchers received.

mod final_state;
mod history;
mod identity;
mod observer;
mod registers;
mod rollouts;
mod selector_watches;

pub(super) use final_state::{unfinished, unowned};
pub(super) use history::History;
pub(super) use identity::watch_identities;
pub(super) use observer::observe;
pub(super) use registers::Registers;
pub(super) use rollouts::Rollouts;
pub(super) use selector_watches::{Selections, read_selected};

/// The state of the checkers of one simulation.
#[derive(Default)]
pub(super) struct Checks {
    pub(super) history: History,
    pub(super) registers: Registers,
    pub(super) rollouts: Rollouts,
    pub(super) selections: Selections,
}
