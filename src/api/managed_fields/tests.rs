//! The state before, the write, and the result: one row for each rule of server-side apply.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::owners::{Owner, Owners};
use super::*;

const TIME: i64 = 1_795_000_000;

/// An object and its owners after some writes.
struct Case {
    of: Type<'static>,
    version: &'static str,
    live: Value,
    owners: Owners,
}

impl Case {
    fn new(kind: &'static str) -> Self {
        let (group, version) = match kind {
            "Deployment" => ("apps", "apps/v1"),
            _ => ("", "v1"),
        };
        let of = Type::built_in(group, "v1", kind);
        let live = json!({"apiVersion": version, "kind": kind});
        Self { of, version, live, owners: Owners::default() }
    }

    fn update(&mut self, manager: &str, next: &Value) -> &mut Self {
        self.update_at(TIME, manager, next)
    }

    fn update_at(&mut self, time: i64, manager: &str, next: &Value) -> &mut Self {
        let mut next = next.clone();
        (next["apiVersion"], next["kind"]) = (self.live["apiVersion"].clone(), self.live["kind"].clone());
        let changes = versions::changes(self.of, &self.live, &next);
        let owner = Manager {
            name: manager.into(),
            operation: Operation::Update,
            api_version: self.version.into(),
            subresource: String::new(),
        };
        let before = ManagedFields::from(self.owners.clone());
        self.owners = Owners::from(&updater::updated(&before, changes, owner, time, &BTreeMap::new()));
        self.live = next;
        self
    }

    fn try_apply(&mut self, manager: &str, config: &Value, force: bool) -> Result<(), String> {
        let mut config = config.clone();
        (config["apiVersion"], config["kind"]) = (self.live["apiVersion"].clone(), self.live["kind"].clone());
        let writer = Writer { manager, subresource: "", now: TIME };
        let ignored = FieldSet::default();
        let config = Configuration { value: &config, version: self.version, ignored: &ignored, force };
        let applied = apply_to(Versions::Same(self.of), &writer, &self.live, self.owners.clone(), &config);
        let (live, owners) = applied.map_err(|refused| refused.to_string())?;
        (self.live, self.owners) = (live, owners);
        Ok(())
    }

    fn apply(&mut self, manager: &str, config: &Value) -> &mut Self {
        self.try_apply(manager, config, false).unwrap();
        self
    }

    fn is(&self, live: &Value, owners: &Value) -> &Self {
        let mut found = self.live.clone();
        let fields = found.as_object_mut().unwrap();
        fields.remove("apiVersion");
        fields.remove("kind");
        assert_eq!(&found, live);
        let found: Value = (self.owners.0.iter())
            .map(|(owner, held)| (owner.name.clone(), held.set.to_fields_v1()))
            .collect();
        assert_eq!(&found, owners);
        self
    }
}

#[test]
fn an_applier_owns_what_it_applies_and_what_it_drops_goes_api_13() {
    let mut case = Case::new("ConfigMap");
    case.apply("a", &json!({"data": {"x": "1", "y": "2"}}));
    case.is(&json!({"data": {"x": "1", "y": "2"}}), &json!({"a": {"f:data": {"f:x": {}, "f:y": {}}}}));
    case.apply("a", &json!({"data": {"x": "1"}}));
    case.is(&json!({"data": {"x": "1"}}), &json!({"a": {"f:data": {"f:x": {}}}}));
}

#[test]
fn a_field_applied_by_two_managers_stays_until_the_last_drops_it_api_13() {
    let mut case = Case::new("ConfigMap");
    case.apply("a", &json!({"data": {"x": "1"}})).apply("b", &json!({"data": {"x": "1", "y": "2"}}));
    let y = json!({"f:data": {"f:x": {}, "f:y": {}}});
    case.is(&json!({"data": {"x": "1", "y": "2"}}), &json!({"a": {"f:data": {"f:x": {}}}, "b": y}));
    case.apply("b", &json!({"data": {"y": "2"}}));
    case.is(
        &json!({"data": {"x": "1", "y": "2"}}),
        &json!({"a": {"f:data": {"f:x": {}}}, "b": {"f:data": {"f:y": {}}}}),
    );
    case.apply("a", &json!({}));
    case.is(&json!({"data": {"y": "2"}}), &json!({"b": {"f:data": {"f:y": {}}}}));
}

/// An object may have as many fields as it may have parts, and managers may have long names.
#[test]
fn a_conflict_error_lists_some_of_many_conflicts_and_counts_the_rest_api_13() {
    let data = |keys: usize, value: &str| -> Value {
        let entries = (0..keys).map(|i| (format!("k{i:05}"), json!(value)));
        json!({"data": entries.collect::<serde_json::Map<_, _>>()})
    };
    let mut case = Case::new("ConfigMap");
    case.apply("a", &data(5_000, "1"));
    let message = case.try_apply("b", &data(5_000, "2"), false).unwrap_err();
    assert!(
        message.starts_with("Apply failed with 5000 conflicts: conflicts with \"a\":\n- .data.k00000\n"),
        "{message:.200}"
    );
    assert!(message.ends_with("\n- .data.k00999\nand 4000 more"), "{}", &message[message.len() - 60..]);
}

#[test]
fn conflicts_name_the_owners_and_force_takes_the_fields_api_13() {
    let mut case = Case::new("ConfigMap");
    case.apply("a", &json!({"data": {"x": "1", "y": "1"}}));
    let next = json!({"data": {"x": "1", "y": "1", "z": "1"}});
    case.update("u", &next);
    let one = case.try_apply("b", &json!({"data": {"x": "2"}}), false).unwrap_err();
    assert_eq!(one, "Apply failed with 1 conflict: conflict with \"a\": .data.x");
    let more = json!({"data": {"x": "2", "y": "2", "z": "2"}});
    let many = case.try_apply("b", &more, false).unwrap_err();
    assert_eq!(
        many,
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .data.x\n- .data.y\nconflicts with \"u\" using v1:\n\
         - .data.z"
    );
    case.try_apply("b", &json!({"data": {"x": "2"}}), true).unwrap();
    case.is(
        &json!({"data": {"x": "2", "y": "1", "z": "1"}}),
        &json!({"a": {"f:data": {"f:y": {}}}, "b": {"f:data": {"f:x": {}}}, "u": {"f:data": {"f:z": {}}}}),
    );
}

#[test]
fn an_update_takes_what_it_changes_api_13() {
    let mut case = Case::new("ConfigMap");
    case.apply("a", &json!({"data": {"x": "1", "y": "1"}}));
    case.update("u", &json!({"data": {"x": "2", "y": "1"}}));
    case.is(
        &json!({"data": {"x": "2", "y": "1"}}),
        &json!({"a": {"f:data": {"f:y": {}}}, "u": {"f:data": {"f:x": {}}}}),
    );
    case.update("u", &json!({"data": {"x": "2"}}));
    case.is(&json!({"data": {"x": "2"}}), &json!({"u": {"f:data": {"f:x": {}}}}));
    let mut made = Case::new("ConfigMap");
    made.update("c", &json!({"metadata": {"name": "n", "labels": {"l": "1"}}, "data": {"x": "1"}}));
    let owned = json!({"f:data": {".": {}, "f:x": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}});
    assert_eq!(made.owners.0.values().next().unwrap().set.to_fields_v1(), owned);
}

#[test]
fn fields_from_before_the_first_apply_have_an_owner_api_13() {
    let mut case = Case::new("ConfigMap");
    case.live["data"] = json!({"x": "1", "y": "1"});
    let refused = case.try_apply("a", &json!({"data": {"x": "2"}}), false).unwrap_err();
    assert_eq!(
        refused,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x"
    );
    case.apply("a", &json!({"data": {"x": "1"}}));
    case.is(
        &json!({"data": {"x": "1", "y": "1"}}),
        &json!({"a": {"f:data": {"f:x": {}}},
            "before-first-apply": {"f:data": {".": {}, "f:x": {}, "f:y": {}}}}),
    );
}

fn deployment(containers: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

#[test]
fn elements_of_a_keyed_list_have_owners_of_their_own_api_13() {
    let mut case = Case::new("Deployment");
    case.apply("a", &deployment(&json!([{"name": "x", "image": "i"}, {"name": "y", "image": "i"}])));
    case.apply("b", &deployment(&json!([{"name": "z", "ports": [{"containerPort": 80}]}, {"name": "x"}])));
    let containers = |case: &Case| case.live["spec"]["template"]["spec"]["containers"].clone();
    assert_eq!(
        containers(&case),
        json!([{"name": "z", "ports": [{"containerPort": 80}]}, {"name": "x", "image": "i"},
            {"name": "y", "image": "i"}])
    );
    let of = |case: &Case, name: &str| {
        let held = case.owners.0.iter().find(|(owner, _)| owner.name == name).unwrap().1.set.to_fields_v1();
        held["f:spec"]["f:template"]["f:spec"]["f:containers"].clone()
    };
    assert_eq!(
        of(&case, "b"),
        json!({"k:{\"name\":\"x\"}": {".": {}, "f:name": {}},
            "k:{\"name\":\"z\"}": {".": {}, "f:name": {}, "f:ports":
                {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}})
    );
    case.apply("a", &deployment(&json!([{"name": "x", "image": "j"}])));
    assert_eq!(
        containers(&case),
        json!([{"name": "z", "ports": [{"containerPort": 80}]}, {"name": "x", "image": "j"}])
    );
    // The element is shared; fields of it with a single owner are removed with that owner.
    case.apply("a", &deployment(&json!([])));
    assert_eq!(containers(&case), json!([{"name": "z", "ports": [{"containerPort": 80}]}, {"name": "x"}]));
}

#[test]
fn sets_and_wholes_are_owned_as_the_schema_says_api_13() {
    let mut case = Case::new("Deployment");
    case.apply(
        "a",
        &json!({"metadata": {"finalizers": ["x/a"]}, "spec": {"selector": {"matchLabels": {"l": "1"}}}}),
    );
    case.apply("b", &json!({"metadata": {"finalizers": ["x/b"]}}));
    case.is(
        &json!({"metadata": {"finalizers": ["x/a", "x/b"]}, "spec": {"selector": {"matchLabels": {"l": "1"}}}}),
        &json!({"a": {"f:metadata": {"f:finalizers": {"v:\"x/a\"": {}}}, "f:spec": {"f:selector": {}}},
            "b": {"f:metadata": {"f:finalizers": {"v:\"x/b\"": {}}}}}),
    );
    let other = json!({"spec": {"selector": {"matchLabels": {"m": "1"}}}});
    let refused = case.try_apply("b", &other, false).unwrap_err();
    assert_eq!(refused, "Apply failed with 1 conflict: conflict with \"a\": .spec.selector");
    case.try_apply("b", &other, true).unwrap();
    assert_eq!(case.live["spec"]["selector"], json!({"matchLabels": {"m": "1"}}));
}

/// A reference is atomic, except for fields that Kubernetes marks as granular: binder and user share a claim.
#[test]
fn a_volumes_claim_is_owned_field_by_field_api_13() {
    let mut case = Case::new("PersistentVolume");
    case.apply("a", &json!({"spec": {"claimRef": {"name": "c", "namespace": "n"}}}));
    case.apply("b", &json!({"spec": {"claimRef": {"uid": "u"}}}));
    case.is(
        &json!({"spec": {"claimRef": {"name": "c", "namespace": "n", "uid": "u"}}}),
        &json!({"a": {"f:spec": {"f:claimRef": {"f:name": {}, "f:namespace": {}}}},
            "b": {"f:spec": {"f:claimRef": {"f:uid": {}}}}}),
    );
}

/// kubectl becomes the applier of fields from client-side apply, unless another client has changed them
/// since.
#[test]
fn kubectl_takes_over_from_client_side_apply_api_13() {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1", "y": "1"}}).to_string();
    let object = |y: &str| json!({"metadata": {"annotations": {LAST: applied}}, "data": {"x": "1", "y": y}});
    let made = || {
        let mut case = Case::new("ConfigMap");
        case.update("kubectl-client-side-apply", &object("1"));
        case
    };
    let mut case = made();
    assert!(case.try_apply("helm", &json!({"data": {"x": "2"}}), false).is_err());
    case.apply("kubectl", &json!({"data": {"x": "2", "y": "1"}}));
    assert_eq!(case.live["data"]["x"], "2");
    assert_eq!(
        case.live["metadata"]["annotations"][LAST],
        "{\"apiVersion\":\"v1\",\"data\":{\"x\":\"2\",\"y\":\"1\"},\"kind\":\"ConfigMap\"}\n"
    );
    let mut changed = made();
    changed.update("other", &object("9"));
    let refused = changed.try_apply("kubectl", &json!({"data": {"x": "2", "y": "2"}}), false).unwrap_err();
    assert_eq!(refused, "Apply failed with 1 conflict: conflict with \"other\" using v1: .data.y");
}

#[test]
fn owners_stand_in_the_order_of_kubernetes_identifiers_api_13() {
    let mut owners = [
        Owner::updater("m", "", "v1"),
        Owner::applier("m", ""),
        Owner::applier("m-x", ""),
        Owner::updater("m", "status", "v1"),
        Owner::applier("m y", ""),
        Owner::updater("m", "scale", "v1"),
        Owner::applier("m", "status"),
    ];
    owners.sort();
    let texts: Vec<String> = owners.iter().map(Owner::text).collect();
    assert_eq!(
        texts,
        [
            r#""m y""#,
            r#""m" with subresource "status""#,
            r#""m""#,
            r#""m" with subresource "scale" using v1"#,
            r#""m" with subresource "status" using v1"#,
            r#""m" using v1"#,
            r#""m-x""#,
        ]
    );
}

#[test]
fn the_oldest_of_too_many_updates_become_one_api_13() {
    let mut case = Case::new("ConfigMap");
    for i in 0..12 {
        let mut next = case.live.clone();
        next["data"][format!("k{i}")] = json!("1");
        case.update_at(TIME + i, &format!("m{i:02}"), &next);
    }
    let names: Vec<&str> = case.owners.0.keys().map(|owner| owner.name.as_str()).collect();
    assert_eq!((names.len(), names[0]), (10, "ancient-changes"));
}

#[test]
fn invalid_apply_configurations_are_refused_as_in_kubernetes_api_13() {
    let of = Type::built_in("apps", "v1", "Deployment");
    for (config, expected) in [
        (json!({"spec": {"replicaz": 1}}), ".spec.replicaz: field not declared in schema"),
        (json!({"spec": {"replicas": "1"}}), ".spec.replicas: expected numeric (int or float), got string"),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            deployment(&json!([{"name": "x"}, {"name": "x"}])),
            ".spec.template.spec.containers: duplicate entries for key [name=\"x\"]",
        ),
        (
            json!({"metadata": {"finalizers": ["a/b", "a/b"]}}),
            ".metadata.finalizers: duplicate entries for key [=\"a/b\"]",
        ),
        (
            deployment(&json!([{"image": "x"}])),
            ".spec.template.spec.containers: element 0: associative list with keys has an element that omits all key \
             fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (
            json!({"a": 1, "b": 1}),
            "errors:\n  .a: field not declared in schema\n  .b: field not declared in schema",
        ),
    ] {
        assert_eq!(faults(of, &config).as_deref(), Some(expected));
    }
    let good = json!({"apiVersion": "apps/v1", "spec": {"template": {"spec": {"containers": [
        {"name": "x", "resources": {"limits": {"cpu": 1}}, "ports": [{"containerPort": 1}, {"containerPort": 1,
            "protocol": "UDP"}]}]}}}});
    assert_eq!(faults(of, &good), None);
}

fn configs() -> impl Strategy<Value = Value> {
    let data = prop::collection::btree_map("[a-c]", "[12]", 0..3);
    let finalizers = prop::collection::btree_set("[xyz]/a", 0..3);
    // Empty fields are absent in a typed object.
    (data, finalizers).prop_map(|(data, finalizers)| {
        let mut config = json!({});
        if !data.is_empty() {
            config["data"] = json!(data);
        }
        if !finalizers.is_empty() {
            config["metadata"]["finalizers"] = json!(finalizers);
        }
        config
    })
}

proptest! {
    /// Applying the same again changes nothing, after any earlier applies.
    #[test]
    fn apply_is_idempotent_api_13(configs in prop::collection::vec(("[ab]", configs()), 1..5)) {
        let mut case = Case::new("ConfigMap");
        for (manager, config) in configs {
            case.try_apply(&manager, &config, true).unwrap();
            let (live, owners) = (case.live.clone(), case.owners.clone());
            case.try_apply(&manager, &config, false).unwrap();
            prop_assert_eq!((&case.live, &case.owners), (&live, &owners));
        }
    }

    /// A conflict is a field that another manager owns and the configuration changes; force makes the applier
    /// its only owner.
    #[test]
    fn force_takes_exactly_the_conflicts_api_13(first in configs(), second in configs()) {
        let mut case = Case::new("ConfigMap");
        case.apply("a", &first);
        let before = case.owners.clone();
        let conflicts = case.try_apply("b", &second, false).is_err();
        case.try_apply("b", &second, true).unwrap();
        let of = |owners: &Owners, name: &str| {
            let found = owners.0.iter().find(|(owner, _)| owner.name == name);
            found.map(|(_, held)| held.set.clone()).unwrap_or_default()
        };
        let lost = of(&before, "a").difference(&of(&case.owners, "a"));
        prop_assert_eq!(conflicts, !lost.is_empty());
        prop_assert_eq!(lost.intersection(&of(&case.owners, "b")), lost);
    }
}

proptest! {
    /// The field set of a new object equals its difference from nothing.
    #[test]
    fn a_new_objects_fields_are_what_it_adds_api_13(config in configs()) {
        let of = Type::built_in("", "v1", "ConfigMap");
        let (new, nothing) = (fields(of, &config), fingerprint(of, &[], &json!({})));
        let changes = compare::compare(&nothing, &fingerprint(of, &[], &config));
        prop_assert!(changes.removed.is_empty());
        prop_assert_eq!(object::managed::compact::encode(&changes.added.union(changes.modified)), new);
    }
}

#[test]
fn versions_are_compared_as_their_schema_says_api_13() {
    let of = Type::built_in("apps", "v1", "Deployment");
    let pod = |containers: &Value, more: &Value| {
        let mut pod = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        for (name, value) in more.as_object().into_iter().flatten() {
            pod["spec"]["template"]["spec"][name] = value.clone();
        }
        pod
    };
    let one = |more: Value| {
        let mut container = json!({"name": "a"});
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod(&json!([container]), &json!({}))
    };
    let none = json!({});
    let containers = ".spec.template.spec.containers";
    let a = format!("{containers}[name=\"a\"]");
    for (old, new, added, removed, modified) in [
        // An atomic list or struct is one field, regardless of the order of its maps.
        (
            json!({"spec": {"selector": {"matchLabels": {"a": "1", "b": "2"}}}}),
            json!({"spec": {"selector": {"matchLabels": {"b": "2", "a": "1"}}}}),
            vec![],
            vec![],
            vec![],
        ),
        (
            one(json!({"args": ["x"]})),
            one(json!({"args": ["x", "y"]})),
            vec![],
            vec![],
            vec![format!("{a}.args")],
        ),
        // If one side is empty, only the parts of the other differ.
        (
            one(json!({"resources": {"limits": {}}})),
            one(json!({"resources": {"limits": {"cpu": "1"}}})),
            vec![format!("{a}.resources.limits.cpu")],
            vec![],
            vec![],
        ),
        (one(json!({"env": []})), one(json!({})), vec![], vec![format!("{a}.env")], vec![]),
        // The order of elements has no owner; keys include their defaults.
        (
            pod(&json!([{"name": "a"}, {"name": "b"}]), &none),
            pod(&json!([{"name": "b"}, {"name": "a"}]), &none),
            vec![],
            vec![],
            vec![],
        ),
        (
            one(json!({"ports": [{"containerPort": 1}]})),
            one(json!({"ports": [{"containerPort": 1, "protocol": "TCP"}]})),
            vec![format!("{a}.ports[containerPort=1,protocol=\"TCP\"].protocol")],
            vec![],
            vec![],
        ),
        // A duplicate counts as one field; an element without an identity counts as none.
        (
            one(json!({"env": [{"name": "e", "value": "1"}]})),
            one(json!({"env": [{"name": "e", "value": "1"}, {"name": "e", "value": "2"}, {"value": "3"}]})),
            vec![],
            vec![],
            vec![format!("{a}.env[name=\"e\"]")],
        ),
        // A value of a wrong type is atomic.
        (
            one(json!({"env": "no"})),
            one(json!({"env": [{"name": "e"}]})),
            vec![],
            vec![],
            vec![format!("{a}.env")],
        ),
        (
            json!({"spec": {"replicas": 1}}),
            json!({"spec": {"replicas": "1"}}),
            vec![],
            vec![],
            vec![".spec.replicas".into()],
        ),
        // Fields that are always present are never added.
        (
            none.clone(),
            json!({"spec": {"strategy": {}, "paused": false}}),
            vec![".spec.paused".into()],
            vec![],
            vec![],
        ),
        (
            json!({"metadata": {"name": "n", "labels": {"l": "1"}}}),
            none.clone(),
            vec![],
            vec![".metadata.labels".into(), ".metadata.labels.l".into()],
            vec![],
        ),
    ] {
        let found = versions::changes(of, &old, &new);
        let texts = |set: &FieldSet| set.paths().iter().map(|path| path_text(path)).collect::<Vec<_>>();
        assert_eq!(
            (texts(&found.added), texts(&found.removed), texts(&found.modified)),
            (added, removed, modified),
            "{old} → {new}"
        );
    }
}
