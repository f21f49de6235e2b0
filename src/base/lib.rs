//! The foundation: time, randomness, back-off, supervised tasks, connections, session streams. Knows nothing of
//! Kubernetes except the types of times.

pub mod backoff;
pub mod client_limiter;
pub mod clock;
pub mod count;
pub mod cron;
pub mod decimal_size;
pub mod dial;
pub mod dial_error;
pub mod did_you_mean;
pub mod file_pages;
mod gate;
mod handshake_signatures;
pub mod hex;
pub mod insecure_verifier;
pub mod layers;
pub mod mistakes;
pub mod optional_file;
pub mod panics;
pub mod peer_credentials;
pub mod quote;
pub mod random;
pub mod resolv_conf;
pub mod root_dir;
pub mod server_trust;
pub mod session;
pub mod socket_path;
pub mod sort;
pub mod stdio;
pub mod step_observer;
pub mod subordinate_ids;
pub mod task;
pub mod tcp_relay;
pub mod time_zone;
pub mod tls_client;
pub mod user_dirs;
pub mod wildcard;
