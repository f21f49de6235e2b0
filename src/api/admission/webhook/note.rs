//! What the audit log hears of webhooks, under Kubernetes' keys.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::hook::Webhook;
use super::review::Sort;
use crate::admission::attributes::Attributes;

/// Where among all webhooks of its sort one was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) sort: Sort,
    /// 0, or 1 where it is asked again.
    pub(super) round: usize,
    pub(super) index: usize,
}

impl Place {
    fn key(self, prefix: &str) -> String {
        format!("{prefix}.webhook.admission.k8s.io/round_{}_index_{}", self.round, self.index)
    }
}

/// A mutating webhook has answered: with a patch that has changed the object, or without.
pub(super) fn mutated(asked: &Attributes<'_>, hook: &Webhook, at: Place, patch: Option<&Value>) {
    let Some(trail) = asked.trail() else { return };
    let of = json!({"configuration": hook.configuration, "webhook": hook.name});
    let mut outcome = of.clone();
    outcome["mutated"] = patch.is_some().into();
    trail.annotate(at.key("mutation"), outcome.to_string());
    if let Some(patch) = patch {
        let mut detail = of;
        detail["patch"] = patch.clone();
        detail["patchType"] = "JSONPatch".into();
        trail.annotate_in_detail(at.key("patch"), detail.to_string());
    }
}

/// A webhook could not be asked, which its policy ignores.
pub(super) fn ignored(asked: &Attributes<'_>, hook: &Webhook, at: Place) {
    let prefix = match at.sort {
        Sort::Mutating => "failed-open.mutation",
        Sort::Validating => "failed-open.validating",
    };
    if let Some(trail) = asked.trail() {
        trail.annotate(at.key(prefix), hook.name.as_str());
    }
}

/// What a webhook wants to have noted.
pub(super) fn said(asked: &Attributes<'_>, hook: &Webhook, annotations: BTreeMap<String, String>) {
    let Some(trail) = asked.trail() else { return };
    for (key, value) in annotations {
        trail.annotate(format!("{}/{key}", hook.name), value);
    }
}
