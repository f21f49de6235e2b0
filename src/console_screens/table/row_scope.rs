//! Decides which objects of its kind a table lists.

use super::Table;
use console_data::context::Context;
use console_data::related;
use console_data::rows::Row;
use console_data::store::controller_of;
use console_operations::effect::RowScope;

impl Table {
    /// Returns whether the table lists a row of the context's cluster.
    pub(super) fn belongs(&self, cx: &Context<'_>, row: &Row) -> bool {
        if self.warnings && row.health.is_none() {
            return false;
        }
        match &self.only {
            RowScope::All => cx.scope.holds(row.namespace.as_deref()),
            RowScope::In(namespace) => row.namespace.as_deref() == Some(namespace),
            RowScope::OnNode(node) => {
                let pod = cx.stores.pods().entry(&row.uid);
                pod.and_then(|pod| pod.open().summary.node.as_deref()) == Some(node)
            }
            RowScope::UsingImage(used) => {
                let pod = cx.stores.pods().entry(&row.uid);
                pod.is_some_and(|pod| {
                    let pod = &pod.open().summary;
                    let namespace = row.namespace.as_deref().unwrap_or_default();
                    pod.node.as_deref() == Some(&used.node)
                        && used.includes(namespace, &row.name, &pod.images)
                })
            }
            RowScope::OwnedBy(owner) => {
                let object = cx.stores.object(&self.kind.resource, &row.uid);
                let direct = object.and_then(|object| object.identity().controller);
                let above = direct.as_ref().and_then(|direct| cx.stores.replica_sets().get(direct));
                let above = above.and_then(controller_of);
                owner.uid.is_some() && (direct == owner.uid || above == owner.uid)
            }
            RowScope::Selected(by) => related::selects(cx, by, row.namespace.as_deref(), &row.labels),
            RowScope::Using(object) => {
                let uses = cx.stores.pods().entry(&row.uid).map(|pod| &pod.open().summary.uses);
                row.namespace == object.namespace
                    && uses.is_some_and(|uses| uses.names(&object.kind.resource, &object.name))
            }
            RowScope::About(object) => {
                let event = cx.stores.events().entry(&row.uid);
                event.is_some_and(|event| related::is_about(&event, object))
            }
        }
    }
}
