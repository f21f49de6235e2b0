//! An index of role bindings by user and group. It follows the writes of bindings: a decision costs a few
//! lookups, however many bindings there are.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::defaults::ACCOUNT_PREFIX;
use crate::{Api, Change, ChangeKind, Visibility, WatchExpired, Watcher};
use base::quote::quote;
use object::{Kind, Object};

/// One subject of a binding.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    /// The role that the binding grants.
    pub(super) role: RoleRef,
    /// The kind and name of the binding, for reasons.
    source: String,
    subject: Subject,
}

impl Grant {
    /// Returns `ClusterRoleBinding "b" of ClusterRole "view" to Group "g"`.
    pub(super) fn description(&self) -> String {
        let (role, subject) = (&self.role, &self.subject);
        let name = match subject.namespace.as_deref().filter(|_| subject.kind == "ServiceAccount") {
            Some(namespace) if !namespace.is_empty() => quote(&format!("{}/{namespace}", subject.name)),
            _ => quote(&subject.name),
        };
        format!("{} of {} {} to {} {name}", self.source, role.kind, quote(&role.name), subject.kind)
    }
}

/// The grants of one subject, by the binding's name and the subject's index in it.
type Grants = BTreeMap<(String, usize), Grant>;

/// The subjects of one namespace's bindings, or of the cluster's.
#[derive(Default)]
struct Scope {
    users: HashMap<String, Grants>,
    groups: HashMap<String, Grants>,
}

/// The subjects by namespace; those of cluster role bindings under the empty one.
#[derive(Default)]
pub(super) struct Subjects(HashMap<String, Scope>);

impl Subjects {
    /// Returns the grants of a user in a namespace (empty: cluster-wide), by name or by group.
    pub(super) fn grants<'a>(
        &'a self,
        namespace: &str,
        user: &'a str,
        groups: &'a [String],
    ) -> impl Iterator<Item = &'a Grant> {
        let scope = self.0.get(namespace);
        let by_name = scope.and_then(|scope| scope.users.get(user));
        let by_group = groups.iter().filter_map(move |group| scope?.groups.get(group));
        by_name.into_iter().chain(by_group).flat_map(BTreeMap::values)
    }

    fn change(&mut self, object: &Object, add: bool) {
        let Some((role, subjects)) = bound(object) else { return };
        let (namespace, name) = (object.meta().namespace.clone().unwrap_or_default(), object.name());
        let source = match namespace.as_str() {
            "" => format!("ClusterRoleBinding {}", quote(name)),
            namespace => format!("RoleBinding {}", quote(&format!("{name}/{namespace}"))),
        };
        let scope = self.0.entry(namespace.clone()).or_default();
        for (i, subject) in subjects.iter().enumerate() {
            let (of, who) = match subject.kind.as_str() {
                "User" => (&mut scope.users, subject.name.clone()),
                "Group" => (&mut scope.groups, subject.name.clone()),
                "ServiceAccount" => {
                    let its = subject.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or(&namespace);
                    (&mut scope.users, format!("{ACCOUNT_PREFIX}{its}:{}", subject.name))
                }
                _ => continue,
            };
            let key = (name.to_string(), i);
            if add {
                let grant = Grant { role: role.clone(), source: source.clone(), subject: subject.clone() };
                of.entry(who).or_default().insert(key, grant);
            } else if let Some(grants) = of.get_mut(&who) {
                grants.remove(&key);
                if grants.is_empty() {
                    of.remove(&who);
                }
            }
        }
        if scope.users.is_empty() && scope.groups.is_empty() {
            self.0.remove(&namespace);
        }
    }

    fn follow(&mut self, change: &Change) {
        if let Some(previous) = &change.previous {
            self.change(previous, false);
        }
        if change.kind != ChangeKind::Deleted {
            self.change(&change.object, true);
        }
    }
}

/// Returns the role of a binding, and its subjects; `None` for other objects.
pub(super) fn bound(object: &Object) -> Option<(&RoleRef, &[Subject])> {
    if let Some(binding) = object.get::<RoleBinding>() {
        return Some((&binding.role_ref, binding.subjects.as_deref().unwrap_or_default()));
    }
    let binding = object.get::<ClusterRoleBinding>()?;
    Some((&binding.role_ref, binding.subjects.as_deref().unwrap_or_default()))
}

/// The index, and its position in the watch.
#[derive(Default)]
pub(crate) struct Bindings {
    subjects: RwLock<Subjects>,
    /// `None` before the first use.
    followed: Mutex<Option<[Watcher; 2]>>,
}

const BINDINGS: [Kind; 2] = [Kind::ClusterRoleBinding, Kind::RoleBinding];

impl Bindings {
    /// Returns the subjects, including every write whose response was sent.
    pub(super) fn current(&self, api: &Api) -> RwLockReadGuard<'_, Subjects> {
        let mut followed = self.followed.lock();
        let expired = match followed.as_mut() {
            Some(watchers) => self.catch_up(watchers).is_err(),
            None => true,
        };
        if expired {
            *followed = Some(self.rebuild(api));
        }
        drop(followed);
        self.subjects.read()
    }

    fn catch_up(&self, watchers: &mut [Watcher; 2]) -> Result<(), WatchExpired> {
        for watcher in watchers {
            loop {
                let changes = watcher.take()?;
                if changes.is_empty() {
                    break;
                }
                let mut subjects = self.subjects.write();
                for change in &changes {
                    subjects.follow(change);
                }
            }
        }
        Ok(())
    }

    fn rebuild(&self, api: &Api) -> [Watcher; 2] {
        let mut subjects = Subjects::default();
        let watchers = BINDINGS.map(|kind| {
            let snapshot = api.list(kind, None);
            snapshot.objects.iter().for_each(|object| subjects.change(object, true));
            api.watch(kind, snapshot.revision, Visibility::Applied)
        });
        *self.subjects.write() = subjects;
        watchers
    }
}
