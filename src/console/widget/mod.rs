//! Small things that are drawn in more than one place.

pub(crate) mod cursor;
pub(crate) mod gauge;
pub(crate) mod scroll;
pub(crate) mod spark;
pub(crate) mod text_pane;
