//! What pods count for in the quotas of their namespace, and which objects a quota's scopes pick.
//!
//! The names are Kubernetes' (page "Resource Quotas"): `pods`, `requests.memory` … What other kinds count for is said
//! where they are (`api::kinds`). Nothing here knows how much there may be.

mod pod;
mod scope;

pub use pod::{is_of_pods, named_resources, requests_and_limits, usage as pod_usage};
pub use scope::{covers, scopes_of};
