//! What the editor is made of: the part of an object that is typed in, the check by the server, where its
//! complaints stand, and how two changes of one object become one.
//!
//! ```text
//!  base ──(typed)──► mine ──► server: dry run ──► review ──► saved
//!    └──(others)───► theirs ──► merge ──┘ (on 409)
//! ```
//!
//! Never draws; the screen is in `screen/edit.rs`.

pub mod action;
pub mod editable;
pub mod exchange;
pub mod external;
pub mod merge;
pub mod problem;

pub use exchange::{Answer, Loaded};
pub use problem::Problem;
