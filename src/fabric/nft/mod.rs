//! nftables, by netlink: tables, chains, sets and rules as values, and batches of changes that the kernel executes
//! atomically.
//!
//! A table belongs to one family; rules for both families are in two tables with the same content. The caller chooses
//! the names of the kernel's objects. `nft list ruleset`, run inside, prints everything written here in nft's own
//! words; nft 1.0.6 cannot print [`Statement::DispatchBy`] and stops at a table that has it.

mod attributes;
mod batch;
mod expressions;
mod model;
mod read;

pub use batch::{Batch, Nft};
pub use model::{
    BaseChain, Element, Family, Field, Hook, Key, Kind, Reject, Rule, Set, Statement, Table, TimedElement,
    Value, Verdict,
};
pub use read::SetFacts;
