//! What is asked before an object is changed: one file a question, each a dialog that ends in actions.

pub mod add_node;
pub mod delete;
pub mod label;
pub mod node;
pub mod restart;
pub mod scale;
pub mod set_image;
mod words;
