//! The parameter objects of a policy.

use std::sync::Arc;

use serde_json::Value;

use super::compiled::{Binding, Policy};
use crate::Api;
use crate::admission::attributes::Attributes;
use crate::served_kinds::{Conversion, Defaults};
use crate::webhook_client::Callee;
use object::selector::Selector;
use object::{Key, Object, ServedKind};

/// The limit on a policy's parameters: the policy is evaluated with each, up to the whole budget.
const MAX_PARAMS: usize = 100;

/// A parameter; `None` for a policy without parameters.
pub(super) struct Param(Option<(ServedKind, Arc<Object>)>);

impl Param {
    /// Returns the value for expressions.
    pub(super) fn value(&self) -> Value {
        self.0.as_ref().map(|(served, object)| served.value(object)).unwrap_or_default()
    }
}

/// Returns the conversion webhooks for the policies' parameters.
pub(super) fn converters<'a>(api: &Api, policies: impl Iterator<Item = &'a Policy>) -> Vec<Callee> {
    let kinds = api.kinds();
    let converter = |policy: &Policy| {
        let kind = policy.param_kind.as_ref()?;
        let served = kinds.by_api_version(kind.api_version.as_deref()?, kind.kind.as_deref()?)?;
        match &kinds.definition(served.kind())?.conversion {
            Conversion::Webhook(webhook) => Some(webhook.callee.clone()),
            Conversion::None => None,
        }
    };
    policies.filter_map(converter).collect()
}

/// Returns the parameters of a binding, each for one evaluation, in the version that the policy names. Fails
/// if parameters are required and missing.
pub(super) fn of(
    api: &Api,
    attributes: &Attributes<'_>,
    policy: &Policy,
    binding: &Binding,
) -> Result<Vec<Param>, String> {
    let Some(kind) = &policy.param_kind else { return Ok(vec![Param(None)]) };
    let Some(reference) = &binding.param_ref else { return Ok(vec![Param(None)]) };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (api_version, name) = (text(&kind.api_version), text(&kind.kind));
    let served = api.kinds().by_api_version(&api_version, &name).ok_or_else(|| {
        let group = if api_version.contains('/') { "" } else { "/" };
        format!("failed to find resource referenced by paramKind: '{group}{api_version}, Kind={name}'")
    })?;
    let namespace = namespace(attributes, served, reference.namespace.as_deref())?;
    let name = reference.name.as_deref().filter(|name| !name.is_empty());
    let found: Vec<Arc<Object>> = if let Some(name) = name {
        api.get(served.kind(), &Key::new(namespace.as_str(), name)).into_iter().collect()
    } else {
        let labels = Selector::from_optional(reference.selector.as_ref());
        let place = (!namespace.is_empty()).then_some(namespace.as_str());
        let all = api.list(served.kind(), place).objects;
        all.into_iter().filter(|object| labels.matches(object.meta().labels.as_ref())).collect()
    };
    if found.is_empty() && reference.parameter_not_found_action.as_deref() != Some("Allow") {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    if found.len() > MAX_PARAMS {
        return Err(format!("more than {MAX_PARAMS} params found for policy binding"));
    }
    let found = api.in_version_now(found, served, Defaults::Filled).map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|object| Param(Some((served, object)))).collect())
}

/// Returns the namespace of the parameters; empty for cluster-scoped ones.
fn namespace(attributes: &Attributes<'_>, served: ServedKind, given: Option<&str>) -> Result<String, String> {
    let given = given.filter(|namespace| !namespace.is_empty());
    if !served.kind().namespaced() {
        return match given {
            Some(_) => Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into()),
            None => Ok(String::new()),
        };
    }
    match given.or(Some(attributes.namespace).filter(|namespace| !namespace.is_empty())) {
        Some(namespace) => Ok(namespace.into()),
        None => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                .into())
        }
    }
}
