//! The ServiceAccount `default` of every namespace (SA-1).

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};

use crate::context::Context;
use api::ChangeKind;
use api::{Api, ApiError, Change};
use object::owner::is_terminating;
use object::{Key, Kind};
use reconcile::{Cache, ReconcileError, Reconciler};

const NAME: &str = "default";

pub(crate) fn start(context: &Context) {
    context
        .controller(|_| ServiceAccountController {
            api: context.api.clone(),
            namespaces: context.caches.of(),
        })
        .for_::<Namespace>()
        .watches::<ServiceAccount, _>(|_, change| account_changed(change))
        .run(&context.tasks);
}

struct ServiceAccountController {
    api: Api,
    namespaces: Cache<Namespace>,
}

impl Reconciler for ServiceAccountController {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(()) };
        let account = Key::new(key.name.as_str(), NAME);
        if is_terminating(&namespace.metadata) || self.api.get(Kind::ServiceAccount, &account).is_ok() {
            return Ok(());
        }
        let account = ServiceAccount { metadata: account.metadata(), ..ServiceAccount::default() };
        ignore_races(self.api.create_as(account).map(drop))
    }
}

/// Ignores the errors of an existing object or a terminating namespace: nothing is left to do.
pub(super) fn ignore_races(created: Result<(), ApiError>) -> Result<(), ReconcileError> {
    match created {
        Err(error)
            if !error.is_already_exists()
                && !error.is_not_found()
                && !matches!(error, ApiError::Forbidden { .. }) =>
        {
            Err(error.into())
        }
        _ => Ok(()),
    }
}

/// Recreates a deleted default account.
fn account_changed(change: &Change) -> Option<Key> {
    let lost = change.kind == ChangeKind::Deleted && change.object.name() == NAME;
    lost.then(|| Key::new("", change.object.namespace()))
}
