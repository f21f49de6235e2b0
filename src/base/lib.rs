//! The foundation: time, randomness, back-off, supervised tasks, session streams. Knows nothing of Kubernetes except
//! the types of times.

pub mod activity;
pub mod any_certificate;
pub mod backoff;
pub mod broken;
pub mod chance;
pub mod clock;
pub mod contained;
pub mod cron;
pub mod dial;
pub mod dial_error;
mod gate;
pub mod nearest;
pub mod peer;
pub mod quote;
pub mod resolv_conf;
pub mod root_dir;
pub mod session;
pub mod socket_path;
pub mod streams;
pub mod task;
pub mod time_zone;
pub mod tls_client;
pub mod wildcard;
