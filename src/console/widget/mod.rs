//! Small widgets that several screens use.

pub(crate) mod cursor;
pub(crate) mod gauge;
pub(crate) mod scroll;
pub(crate) mod spark;
pub(crate) mod text_pane;
