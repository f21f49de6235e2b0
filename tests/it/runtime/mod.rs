//! The process runtime with real processes: what is started is seen, and what is killed is gone.

mod containment;
mod faults;
mod hung;
mod life;
mod limits;
pub(crate) mod node;
mod sandbox;
mod sessions;
mod volumes;
mod web_server;
