//! Small things that are drawn in more than one place.

pub mod gauge;
pub mod scroll;
pub mod spark;
