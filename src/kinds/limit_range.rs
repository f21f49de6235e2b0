//! Limit ranges.

use std::collections::{BTreeSet, HashSet};

use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::columns::Column;
use super::resource::Resource;
use apimachinery::validate::{FieldErrors, Path, names, resources};
use object::quantity::{Amount, ResourceList};

impl Resource for LimitRange {
    const ALLOWS_CREATE_ON_UPDATE: bool = true;
    const COLUMNS: &'static [Column<Self>] = &[Column::name(), Column::created_at()];

    /// The default limit of a container is its maximum; the default request is the default limit, or else the minimum.
    fn apply_defaults(&mut self) {
        for item in self.spec.iter_mut().flat_map(|s| &mut s.limits).filter(|i| i.type_ == "Container") {
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

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::root("spec.limits");
        let mut seen = HashSet::new();
        for (path, item) in path.each(self.spec.iter().flat_map(|s| &s.limits)) {
            limited_type(errors, &path.child("type"), &item.type_);
            errors.unique(&mut seen, &path.child("type"), &item.type_);
            amounts(errors, &path, item);
            if item.type_ == "PersistentVolumeClaim" {
                let storage =
                    |list: &Option<ResourceList>| list.as_ref().is_some_and(|l| l.contains_key("storage"));
                if !storage(&item.min) && !storage(&item.max) {
                    let detail =
                        "either minimum or maximum storage value is required, but neither was provided";
                    errors.required(&path.child("limits"), detail);
                }
            }
            for name in named(item) {
                in_order(errors, &path, item, name);
            }
        }
    }
}

fn limited_type(errors: &mut FieldErrors, path: &Path<'_>, type_: &str) {
    errors.invalid_each(path, type_, names::qualified_name(type_));
    if !type_.contains('/') && !matches!(type_, "Container" | "Pod" | "PersistentVolumeClaim") {
        errors.invalid(path, type_, "must be a standard limit type or fully qualified");
    }
}

/// Returns the lists of an item with the names of their fields.
fn lists(item: &LimitRangeItem) -> [(&'static str, Option<&ResourceList>); 5] {
    [
        ("max", item.max.as_ref()),
        ("min", item.min.as_ref()),
        ("default", item.default.as_ref()),
        ("defaultRequest", item.default_request.as_ref()),
        ("maxLimitRequestRatio", item.max_limit_request_ratio.as_ref()),
    ]
}

fn named(item: &LimitRangeItem) -> BTreeSet<&String> {
    lists(item).into_iter().filter_map(|(_, list)| list).flatten().map(|(name, _)| name).collect()
}

fn amounts(errors: &mut FieldErrors, path: &Path<'_>, item: &LimitRangeItem) {
    for (field, list) in lists(item) {
        let path = path.child(field);
        let is_default = field.starts_with("default");
        if is_default && item.type_ == "Pod" && list.is_some_and(|list| !list.is_empty()) {
            errors.forbidden(&path, "may not be specified when `type` is 'Pod'");
            continue;
        }
        for (name, value) in list.into_iter().flatten() {
            if matches!(item.type_.as_str(), "Pod" | "Container") {
                resources::container_resource(errors, &path.key(name), name);
            } else {
                resources::resource(errors, &path.key(name), name);
            }
            resources::quantity(errors, &path.key(name), value);
        }
    }
}

/// Requires that minimum, default request, default limit and maximum are in ascending order.
fn in_order(errors: &mut FieldErrors, path: &Path<'_>, item: &LimitRangeItem, name: &str) {
    let [max, min, default, request, ratio] = lists(item).map(|(_, list)| list.and_then(|l| l.get(name)));
    let mut check = |field: &str,
                     shown: &Quantity,
                     low: Option<&Quantity>,
                     high: Option<&Quantity>,
                     bounds: [&str; 2]| {
        if let (Some(low), Some(high)) = (low, high)
            && Amount::of(low) > Amount::of(high)
        {
            let [low_name, high_name] = bounds;
            let detail = format!("{low_name} value {} is greater than {high_name} value {}", low.0, high.0);
            errors.invalid(&path.child(field).key(name), shown, detail);
        }
    };
    if let Some(min) = min {
        check("min", min, Some(min), max, ["min", "max"]);
    }
    if let Some(request) = request {
        check("defaultRequest", request, min, Some(request), ["min", "default request"]);
        check("defaultRequest", request, Some(request), max, ["default request", "max"]);
        check("defaultRequest", request, Some(request), default, ["default request", "default limit"]);
    }
    if let Some(default) = default {
        check("default", default, min, Some(default), ["min", "default"]);
        check("default", default, Some(default), max, ["default", "max"]);
    }
    if let Some(ratio) = ratio {
        let path = path.child("maxLimitRequestRatio");
        let path = path.key(name);
        let ratio_limit = Amount::of(ratio).as_f64();
        if ratio_limit < 1.0 {
            errors.invalid(&path, ratio, format!("ratio {} is less than 1", ratio.0));
        }
        if let (Some(max), Some(min)) = (max, min)
            && !Amount::of(min).is_zero()
        {
            let widest = Amount::of(max).as_f64() / Amount::of(min).as_f64();
            if ratio_limit > widest {
                let detail = format!("ratio {} is greater than max/min = {widest:.6}", ratio.0);
                errors.invalid(&path, ratio, detail);
            }
        }
    }
    if let (Some(request), Some(default)) = (request, default)
        && resources::is_extended(name)
        && Amount::of(request) != Amount::of(default)
    {
        let detail =
            format!("default value {} must equal to defaultRequest value {} in {name}", default.0, request.0);
        errors.invalid(&path.child("defaultRequest").key(name), request, detail);
    }
}
