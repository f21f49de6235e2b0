//! Subresources with actions of their own: binding, eviction, scale.

mod binding;
mod eviction;
mod scale;

pub(crate) use scale::scale_of;
