//! Deployments: changing the version of a number of equal pods gradually.

mod annotations;
mod fleet;
mod hash;
mod history;
mod progress;
mod recreate;
mod rolling;
mod scaling;
