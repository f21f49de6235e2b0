//! What is asked before an object is changed: one file a question, each a dialog that ends in actions.

pub(crate) mod add_node;
pub(crate) mod delete;
pub(crate) mod label;
pub(crate) mod node;
pub(crate) mod restart;
pub mod scale;
pub(crate) mod set_image;
mod words;
