//! Actions below an object: binding, eviction, scale.

mod binding;
mod eviction;
mod scale;

pub(crate) use scale::scale_of;
