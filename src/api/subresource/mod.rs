//! Actions below an object: binding, eviction, scale.

mod binding;
mod eviction;
mod scale;
