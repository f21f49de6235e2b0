//! Defaults of limit ranges.

use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem};

/// A container's default limit is the most it may have, its default request the default limit, or the
/// least it may have.
pub(super) fn limit_range(range: &mut LimitRange) {
    for item in range.spec.iter_mut().flat_map(|s| &mut s.limits).filter(|i| i.type_ == "Container") {
        let LimitRangeItem { default, default_request, max, min, .. } = item;
        let limits = default.get_or_insert_default();
        for (name, amount) in max.iter().flatten() {
            limits.entry(name.clone()).or_insert_with(|| amount.clone());
        }
        let requests = default_request.get_or_insert_default();
        for (name, amount) in limits.iter().chain(min.iter().flatten()) {
            requests.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }
}
