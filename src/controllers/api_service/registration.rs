//! Creates an APIService for each group and version served here, as Kubernetes registers them: those of custom
//! resources come and go with their definitions, and one that a user has taken over is left alone.

use std::collections::HashSet;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use parking_lot::Mutex;

use crate::context::Context;
use api::aggregation::AutomanagedLabel;
use api::{Api, ApiError, DeleteOptions};
use object::{Key, Kind};
use reconcile::{ReconcileError, Reconciler, ignore_gone, ignore_not_found, optional};

pub(crate) fn start(context: &Context) {
    let api = context.api.acting_as("kube-aggregator");
    let controller =
        context.controller(|_| RegistrationController { api: api.clone(), corrected: Mutex::default() });
    let queue = controller.queue();
    controller.for_::<APIService>().run(&context.tasks);
    context.tasks.spawn("apiservice-registration-controller", async move {
        let mut kinds = api.kinds_changed();
        loop {
            kinds.mark_unchanged();
            for name in api.local_api_services() {
                queue.add(Key::new("", name));
            }
            // Queues the existing APIServices, so that those of groups no longer served are deleted.
            for service in api.list_as::<APIService>(None) {
                if AutomanagedLabel::of(&service.metadata).is_some() {
                    queue.add(service.key());
                }
            }
            if kinds.changed().await.is_err() {
                return;
            }
        }
    });
}

struct RegistrationController {
    api: Api,
    /// The names of APIServices that were corrected since the start.
    corrected: Mutex<HashSet<String>>,
}

impl Reconciler for RegistrationController {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let desired = self.api.local_api_service(&key.name);
        let current = optional(self.api.get_as::<APIService>(key))?;
        match decide(current.as_deref(), desired, self.is_corrected(key)) {
            RegistrationAction::Nothing => {}
            RegistrationAction::Create(desired) => match self.api.create_as(*desired) {
                Ok(_) | Err(ApiError::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
            },
            RegistrationAction::Delete(uid) => {
                let deleted = self.api.delete(Kind::APIService, key, &DeleteOptions::uid(uid));
                ignore_gone(deleted)?;
            }
            RegistrationAction::Write(desired) => {
                let written = self.api.modify::<APIService>(key, |fresh| {
                    if AutomanagedLabel::of(&fresh.metadata).is_some() {
                        fresh.spec.clone_from(&desired.spec);
                    }
                    Ok(())
                });
                ignore_not_found(written)?;
            }
        }
        self.corrected.lock().insert(key.name.clone());
        Ok(())
    }
}

impl RegistrationController {
    fn is_corrected(&self, key: &Key) -> bool {
        self.corrected.lock().contains(&key.name)
    }
}

/// The action for one APIService.
enum RegistrationAction {
    Nothing,
    Create(Box<APIService>),
    /// Delete the one with this uid.
    Delete(String),
    /// Write this spec.
    Write(Box<APIService>),
}

/// Decides how to bring the current object to the desired state; an object that a user has taken over is left alone.
/// `is_corrected`: the object was corrected since the start.
fn decide(
    current: Option<&APIService>,
    desired: Option<APIService>,
    is_corrected: bool,
) -> RegistrationAction {
    let Some(current) = current else {
        return desired
            .map_or(RegistrationAction::Nothing, |desired| RegistrationAction::Create(Box::new(desired)));
    };
    let Some(managed) = AutomanagedLabel::of(&current.metadata) else { return RegistrationAction::Nothing };
    let Some(desired) = desired else {
        return RegistrationAction::Delete(current.metadata.uid.clone().unwrap_or_default());
    };
    // An administrator's change lasts until the next start.
    let stands = managed == AutomanagedLabel::OnStart && is_corrected;
    if stands || current.spec == desired.spec {
        RegistrationAction::Nothing
    } else {
        RegistrationAction::Write(Box::new(desired))
    }
}
