//! nftables, by netlink: tables, chains, sets and rules as values, and batches of changes that the kernel makes at once or
//! not at all.
//!
//! A table is of one family; what concerns both is in two tables that are twins. Names of what the kernel has are the
//! caller's. `nft list ruleset`, run inside, shows what is written here in nft's own words; nft 1.0.6
//! cannot show [`Part::DispatchBy`] and ends at a table that has it.

mod batch;
mod expressions;
mod model;
mod read;

pub use batch::{Batch, Nft};
pub use model::{
    Base, Element, Family, Field, Hook, Key, Kind, Part, Reject, Remembered, Rule, Set, Table, Value, Verdict,
};
pub use read::SetFacts;
