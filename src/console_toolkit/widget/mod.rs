//! Small widgets that several screens use.

pub mod cursor;
pub mod gauge;
pub mod notice;
pub mod scroll;
pub mod spark;
pub mod text_pane;
pub mod title;
pub mod wrap;
