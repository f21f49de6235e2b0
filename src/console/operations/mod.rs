//! Operations on objects, as kubectl has them: one file an operation, with its dialog and the actions it ends in.

pub mod add_node;
pub mod delete;
pub mod label;
pub mod node;
pub mod restart;
pub mod scale;
pub mod set_image;
mod words;
