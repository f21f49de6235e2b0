//! The ground: time, back-off and supervised tasks. Knows no Kubernetes.

pub mod backoff;
pub mod clock;
pub mod nearest;
pub mod resolv_conf;
pub mod task;
