//! The usage of pods in their namespace's quotas, and the scopes of quotas.
//!
//! The names are Kubernetes' (page "Resource Quotas"): `pods`, `requests.memory` … The usage of other kinds is defined
//! with their rules (`kinds`). This module does not know the quotas' limits.

mod pod;
mod scope;

pub use pod::{is_of_pods, named_resources, requests_and_limits, usage as pod_usage};
pub use scope::{covers, scopes_of};
