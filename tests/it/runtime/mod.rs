//! The process runtime with real processes: started processes are visible, and killed ones are gone.

mod containment;
mod faults;
mod hung;
mod life;
mod limits;
pub(crate) mod node;
mod pid_namespaces;
mod sandbox;
mod sessions;
mod volumes;
mod web_server;
