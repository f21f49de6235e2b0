//! Audit annotations about webhooks, under Kubernetes' keys.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::hook::Webhook;
use super::review::WebhookType;
use crate::admission::attributes::Attributes;

/// The position of a call among all webhooks of its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct WebhookPosition {
    pub(super) webhook_type: WebhookType,
    /// 0, or 1 for a reinvocation.
    pub(super) round: usize,
    pub(super) index: usize,
}

impl WebhookPosition {
    fn key(self, prefix: &str) -> String {
        format!("{prefix}.webhook.admission.k8s.io/round_{}_index_{}", self.round, self.index)
    }
}

/// Records a mutating webhook's response: with a patch that changed the object, or without.
pub(super) fn mutated(
    attributes: &Attributes<'_>,
    hook: &Webhook,
    at: WebhookPosition,
    patch: Option<&Value>,
) {
    let Some(audit) = attributes.audit() else { return };
    let of = json!({"configuration": hook.configuration, "webhook": hook.name});
    let mut outcome = of.clone();
    outcome["mutated"] = patch.is_some().into();
    audit.annotate(at.key("mutation"), outcome.to_string());
    if let Some(patch) = patch {
        let mut detail = of;
        detail["patch"] = patch.clone();
        detail["patchType"] = "JSONPatch".into();
        audit.annotate_in_detail(at.key("patch"), detail.to_string());
    }
}

/// Records a failed call that the webhook's failure policy ignores.
pub(super) fn ignored(attributes: &Attributes<'_>, hook: &Webhook, at: WebhookPosition) {
    let prefix = match at.webhook_type {
        WebhookType::Mutating => "failed-open.mutation",
        WebhookType::Validating => "failed-open.validating",
    };
    if let Some(audit) = attributes.audit() {
        audit.annotate(at.key(prefix), hook.name.clone());
    }
}

/// Records a webhook's own audit annotations.
pub(super) fn record_webhook_annotations(
    attributes: &Attributes<'_>,
    hook: &Webhook,
    annotations: BTreeMap<String, String>,
) {
    let Some(audit) = attributes.audit() else { return };
    for (key, value) in annotations {
        audit.annotate(format!("{}/{key}", hook.name), value);
    }
}
