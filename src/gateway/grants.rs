//! References across namespaces, which need a ReferenceGrant in the target's namespace.

use super::resources::{GROUP, ObjectRef, ReferenceGrantSpec};

/// All ReferenceGrants, with their namespaces.
#[derive(Clone, Debug, Default)]
pub(super) struct ReferenceGrants(Vec<(String, ReferenceGrantSpec)>);

impl ReferenceGrants {
    pub(super) fn new(all: Vec<(String, ReferenceGrantSpec)>) -> Self {
        Self(all)
    }

    /// Returns whether an object (`from`: its Gateway API kind and its namespace) may refer to an object of the core
    /// group (`to`: its kind, namespace and name). References within a namespace are always allowed.
    pub(super) fn allow(&self, from: (&str, &str), to: (&str, &str, &str)) -> bool {
        let ((kind, namespace), (to_kind, to_namespace, name)) = (from, to);
        if namespace == to_namespace {
            return true;
        }
        self.0.iter().filter(|(of, _)| of == to_namespace).any(|(_, grant)| {
            let is_from = grant
                .from
                .iter()
                .any(|from| from.group == GROUP && from.kind == kind && from.namespace == namespace);
            let is_to = grant.to.iter().any(|to| {
                let named = to.name.as_deref().filter(|named| !named.is_empty());
                to.group.is_empty() && to.kind == to_kind && named.is_none_or(|named| named == name)
            });
            is_from && is_to
        })
    }
}

impl ObjectRef {
    /// Returns whether the reference is to this kind of the core group; a reference without a kind is, because `kind`
    /// is the default of its field.
    pub(super) fn is_core(&self, kind: &str) -> bool {
        self.group.as_deref().unwrap_or_default().is_empty()
            && self.kind.as_deref().is_none_or(|named| named == kind)
    }

    /// Returns the namespace of the referenced object; by default `own`, the namespace of the object with the
    /// reference.
    pub(super) fn namespace_from<'a>(&'a self, own: &'a str) -> &'a str {
        self.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or(own)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_namespace_is_reached_only_where_it_lets_net_9() {
        let grant = json!({"from": [{"group": GROUP, "kind": "HTTPRoute", "namespace": "apps"}],
            "to": [{"group": "", "kind": "Service", "name": "db"}, {"group": "", "kind": "Secret"}]});
        let grants = ReferenceGrants::new(vec![("data".into(), serde_json::from_value(grant).unwrap())]);
        for (from, to, expected) in [
            (("HTTPRoute", "data"), ("Service", "data", "web"), true),
            (("HTTPRoute", "apps"), ("Service", "data", "db"), true),
            (("HTTPRoute", "apps"), ("Service", "data", "web"), false),
            (("HTTPRoute", "apps"), ("Secret", "data", "any"), true),
            (("HTTPRoute", "apps"), ("Service", "more", "db"), false),
            (("HTTPRoute", "other"), ("Service", "data", "db"), false),
            (("Gateway", "apps"), ("Secret", "data", "any"), false),
        ] {
            assert_eq!(grants.allow(from, to), expected, "{from:?} {to:?}");
        }
    }
}
