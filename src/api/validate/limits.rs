//! Rules of limit ranges.

use k8s_openapi::api::core::v1::LimitRange;

use super::field::{FieldErrors, Path};
use super::resources;

pub(super) fn limit_range(errors: &mut FieldErrors, range: &LimitRange) {
    let path = Path::root("spec.limits");
    for (i, item) in range.spec.iter().flat_map(|s| &s.limits).enumerate() {
        let path = path.index(i);
        if item.type_.is_empty() {
            errors.required(&path.child("type"), "");
        }
        for (field, list) in [
            ("max", &item.max),
            ("min", &item.min),
            ("default", &item.default),
            ("defaultRequest", &item.default_request),
            ("maxLimitRequestRatio", &item.max_limit_request_ratio),
        ] {
            resources::amounts(errors, &path.child(field), list.as_ref());
        }
    }
}
