//! Subresources with actions of their own: binding, eviction, scale.

mod binding;
mod eviction;
mod scale;

pub use scale::scale_of;
