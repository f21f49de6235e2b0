//! Volumes, claims and storage classes.

use super::*;

const VOLUME: &str = "spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}}";
const CLAIM: &str = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}";

/// Replaces one part of a text.
fn with(text: &str, part: &str, other: &str) -> String {
    assert!(text.contains(part), "{part}");
    text.replace(part, other)
}

#[test]
fn volumes_have_one_source_and_a_size_vol_2() {
    Template::new(
        Kind::PersistentVolume,
        "spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], …}",
        "spec",
    )
    .check(
        r#"
hostPath: {path: /srv}
storageClassName: x
  ! : Required value: must specify a volume type
hostPath: {path: /srv}, nfs: {server: s, path: /}
  ! .nfs: Forbidden: may not specify more than 1 volume type
hostPath: {path: ''}
  ! .hostPath.path: Required value
hostPath: {path: /a/../b}
  ! .hostPath.path: Invalid value: "/a/../b": must not contain '..'
hostPath: {path: //.}, persistentVolumeReclaimPolicy: Recycle
  ! .persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'
hostPath: {path: /a}, persistentVolumeReclaimPolicy: Keep
  ! .persistentVolumeReclaimPolicy: Unsupported value: "Keep": supported values: "Delete", "Recycle", "Retain"
local: {path: /mnt}
  ! .nodeAffinity: Required value: Local volume requires node affinity
local: {path: /mnt}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}
hostPath: {path: /a}, nodeAffinity: {}
  ! .nodeAffinity.required: Required value: must specify required node constraints
hostPath: {path: /a}, nodeAffinity: {required: {nodeSelectorTerms: []}}
  ! .nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term
hostPath: {path: /a}, volumeMode: Tape
  ! .volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"
"#,
    );
    check(
        Kind::PersistentVolume,
        r#"
spec: {capacity: {storage: 5Gi}, hostPath: {path: /srv}}
  ! spec.accessModes: Required value
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteTwice], hostPath: {path: /srv}}
  ! spec.accessModes: Unsupported value: "ReadWriteTwice": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce, ReadWriteOncePod], hostPath: {path: /srv}}
  ! spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes
spec: {accessModes: [ReadWriteOnce], hostPath: {path: /srv}}
  ! spec.capacity: Required value
  ! spec.capacity: Unsupported value: null: supported values: "storage"
spec: {capacity: {storage: 0}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}}
  ! spec.capacity[storage]: Invalid value: "0": must be greater than zero
spec: {capacity: {storage: -1}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}}
  ! spec.capacity[storage]: Invalid value: "-1": must be greater than or equal to 0
spec: {capacity: {cpu: 1}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}}
  ! spec.capacity: Unsupported value: {"cpu":"1"}: supported values: "storage"
"#,
    );
}

#[test]
fn claims_ask_for_a_size_and_a_use_vol_2() {
    check(
        Kind::PersistentVolumeClaim,
        r#"
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
spec: {resources: {requests: {storage: 5Gi}}}
  ! spec.accessModes: Required value: at least 1 access mode is required
spec: {accessModes: [ReadWriteOnce], resources: {requests: {}}}
  ! spec.resources[storage]: Required value
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 0}}}
  ! spec.resources[storage]: Invalid value: "0": must be greater than zero
spec: {accessModes: [ReadWriteOnce], selector: {matchExpressions: [{key: a, operator: Maybe}]}, resources: {requests: {storage: 5Gi}}}
  ! spec.selector.matchExpressions[0].operator: Invalid value: "Maybe": not a valid selector operator
spec: {accessModes: [ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 5Gi}}}
spec: {accessModes: [ReadWriteOnce], dataSource: {kind: Thing, name: ''}, resources: {requests: {storage: 5Gi}}}
  ! spec.dataSource.name: Required value
  ! spec.dataSource: Invalid value: "Thing": must be 'PersistentVolumeClaim' when referencing the default apiGroup
"#,
    );
    check_pod(
        r"
volumes: [{name: v, ephemeral: {}}]
  ! .volumes[0].ephemeral.volumeClaimTemplate: Required value
volumes: [{name: v, ephemeral: {volumeClaimTemplate: {metadata: {name: x}, spec: {accessModes: [ReadWriteOnce]}}}}]
  ! .volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set
  ! .volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value
",
    );
}

/// Returns the errors of an update, without the diff that some of them contain.
fn changes(kind: Kind, old: &str, new: &str) -> Vec<String> {
    let errors = messages(&validate_update(&object(kind, new), &object(kind, old)));
    errors.iter().map(|e| e.lines().next().unwrap_or_default().to_string()).collect()
}

#[test]
fn the_request_of_a_claim_may_only_grow_vol_2() {
    let frozen = "spec is immutable after creation except resources.requests and \
        volumeAttributesClassName for bound claims";
    for case in read_cases(
        &r#"
# a bound one grows
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}\nstatus: {phase: Bound, capacity: {storage: 5Gi}}
-> spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 6Gi}}}\nstatus: {phase: Bound, capacity: {storage: 5Gi}}
# it never shrinks below what it has
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}\nstatus: {phase: Bound, capacity: {storage: 5Gi}}
-> spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Gi}}}\nstatus: {phase: Bound, capacity: {storage: 5Gi}}
  ! spec.resources.requests.storage: Forbidden: field can not be less than status.capacity
# a pending one does not grow
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
-> spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 6Gi}}}
  ! spec: Forbidden: <frozen>
# its use stays
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}\nstatus: {phase: Bound, capacity: {storage: 5Gi}}
-> spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 5Gi}}}\nstatus: {phase: Bound, capacity: {storage: 5Gi}}
  ! spec: Forbidden: <frozen>
# it gets a volume
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
-> spec: {accessModes: [ReadWriteOnce], volumeName: v, resources: {requests: {storage: 5Gi}}}
# and keeps it
spec: {accessModes: [ReadWriteOnce], volumeName: v, resources: {requests: {storage: 5Gi}}}
-> spec: {accessModes: [ReadWriteOnce], volumeName: w, resources: {requests: {storage: 5Gi}}}
  ! spec: Forbidden: <frozen>
# it gets a class
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
-> spec: {accessModes: [ReadWriteOnce], storageClassName: a, resources: {requests: {storage: 5Gi}}}
# none is a class, too
spec: {accessModes: [ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 5Gi}}}
-> spec: {accessModes: [ReadWriteOnce], storageClassName: a, resources: {requests: {storage: 5Gi}}}
  ! spec: Forbidden: <frozen>
# its mode stays
spec: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 5Gi}}}
-> spec: {accessModes: [ReadWriteOnce], volumeMode: Filesystem, resources: {requests: {storage: 5Gi}}}
  ! spec: Forbidden: <frozen>
  ! volumeMode: Invalid value: "Filesystem": field is immutable
"#
        .replace("<frozen>", frozen),
    ) {
        assert_eq!(changes(Kind::PersistentVolumeClaim, &case.text, case.new_text()), case.errors, "{case:?}");
    }
    let errors = validate_update(
        &object(Kind::PersistentVolumeClaim, &with(CLAIM, "[ReadWriteOnce]", "[ReadWriteMany]")),
        &object(Kind::PersistentVolumeClaim, CLAIM),
    );
    let text = messages(&errors).join("");
    assert!(text.contains("core.PersistentVolumeClaimSpec{"), "{text}");
    assert!(text.contains("- \tAccessModes:") && text.contains("+ \tAccessModes:"), "{text}");
}

#[test]
fn volumes_stay_what_they_stand_for_vol_2() {
    let affinity = |key: &str| {
        format!(
            "hostPath: {{path: /srv}}, nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: \
             [{{key: {key}, operator: Exists}}]}}]}}}}"
        )
    };
    let plain = "hostPath: {path: /srv}";
    for case in read_cases(
        r"
# size
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}}
-> spec: {capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}}
# policy
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}}
-> spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}, persistentVolumeReclaimPolicy: Delete}
# place
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}}
-> spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /etc}}
  ! spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation
# affinity set later
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}}
-> spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /srv}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
",
    ) {
        assert_eq!(changes(Kind::PersistentVolume, &case.text, case.new_text()), case.errors, "{case:?}");
    }
    let moved = changes(
        Kind::PersistentVolume,
        &with(VOLUME, plain, &affinity("a")),
        &with(VOLUME, plain, &affinity("b")),
    );
    let detail = "field is immutable, except for updating from beta label to GA";
    assert!(moved.len() == 1 && moved[0].ends_with(detail), "{moved:?}");
    let renamed = changes(
        Kind::PersistentVolume,
        &with(VOLUME, plain, &affinity("failure-domain.beta.kubernetes.io/zone")),
        &with(VOLUME, plain, &affinity("topology.kubernetes.io/zone")),
    );
    assert_eq!(renamed, Vec::<String>::new());
}

#[test]
fn classes_keep_their_word_vol_2() {
    check(
        Kind::StorageClass,
        r#"
provisioner: podium.dev/directory
{}
  ! provisioner: Required value
provisioner: x\nreclaimPolicy: Recycle
  ! reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"
provisioner: x\nvolumeBindingMode: Later
  ! volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"
provisioner: x\nparameters: {'': v}
  ! parameters: Invalid value: "": field can not be empty.
provisioner: x\nallowedTopologies: [{matchLabelExpressions: [{key: z, values: []}, {key: w, values: [a, a]}]}]
  ! allowedTopologies[0].matchLabelExpressions[0].values: Required value
  ! allowedTopologies[0].matchLabelExpressions[1].values[1]: Duplicate value: "a"
provisioner: x\nallowedTopologies: [{matchLabelExpressions: [{key: z, values: [a, b]}]}, {matchLabelExpressions: [{key: z, values: [a]}]}, {matchLabelExpressions: [{key: z, values: [b, a]}]}]
  ! allowedTopologies[2].matchLabelExpressions: Duplicate value: ""
"#,
    );
    let old = "provisioner: a\nreclaimPolicy: Delete\nvolumeBindingMode: Immediate\nparameters: {k: v}";
    for (part, other, expected) in [
        ("provisioner: a", "provisioner: b", "provisioner: Invalid value: \"b\": field is immutable"),
        ("Delete", "Retain", "reclaimPolicy: Invalid value: \"Retain\": field is immutable"),
        ("k: v", "k: w", "parameters: Invalid value: {\"k\":\"w\"}: field is immutable"),
        (
            "Immediate",
            "WaitForFirstConsumer",
            "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable",
        ),
    ] {
        assert_eq!(changes(Kind::StorageClass, old, &with(old, part, other)), [expected]);
    }
    assert!(changes(Kind::StorageClass, old, &format!("{old}\nallowVolumeExpansion: true")).is_empty());
}

#[test]
fn objects_of_volume_drivers_are_checked_api_17() {
    check(
        Kind::VolumeAttachment,
        r#"
spec: {attacher: a.b, nodeName: node-1, source: {persistentVolumeName: v}}
spec: {attacher: '', nodeName: Node, source: {}}
  ! spec.attacher: Required value
  ! spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName
  ! spec.nodeName: Invalid value: "Node": <subdomain>
spec: {attacher: a.b, nodeName: node-1, source: {inlineVolumeSpec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce]}}}
  ! spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes
  ! spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes
  ! spec.source.inlineVolumeSpec: Required value: must specify a volume type
"#,
    );
    check_change(
        Kind::VolumeAttachment,
        r#"
spec: {attacher: a.b, nodeName: node-1, source: {persistentVolumeName: v}}
-> spec: {attacher: a.b, nodeName: node-2, source: {persistentVolumeName: v}}
  ! spec: Invalid value: {"attacher":"a.b","nodeName":"node-2","source":{"persistentVolumeName":"v"}}: field is immutable
"#,
    );
    check_status(
        Kind::VolumeAttachment,
        &r"
spec: {attacher: a.b, nodeName: node-1, source: {persistentVolumeName: v}}
-> spec: {attacher: a.b, nodeName: node-1, source: {persistentVolumeName: v}}\nstatus: {attached: false, attachError: {message: <long>}}
  ! status.attachError.message: Too long: may not be more than 1024 bytes
"
        .replace("<long>", &"x".repeat(1025)),
    );
    check_status(
        Kind::VolumeAttachment,
        r"
<empty>
-> status: {attached: false, detachError: {errorCode: -1}, attachError: {errorCode: 8}}
  ! status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive
",
    );
    check(
        Kind::CSINode,
        r#"
spec: {drivers: [{name: a.b, nodeID: '1', topologyKeys: [a.b/zone], allocatable: {count: 5}}]}
spec: {drivers: [{name: a.b, nodeID: '', allocatable: {count: -1}}, {name: a.b, nodeID: '1', topologyKeys: [z, z]}]}
  ! spec.drivers[0].nodeID: Required value
  ! spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0
  ! spec.drivers[1]: Duplicate value: "z"
  ! spec.drivers[1].name: Duplicate value: "a.b"
"#,
    );
    check_change(
        Kind::CSINode,
        r#"
spec: {drivers: [{name: a.b, nodeID: '1'}]}
-> spec: {drivers: [{name: a.b, nodeID: '1', allocatable: {count: 1}}, {name: c.d, nodeID: '1'}]}
spec: {drivers: [{name: a.b, nodeID: '1'}]}
-> spec: {drivers: [{name: a.b, nodeID: '2'}]}
  ! spec.drivers: Invalid value: {"name":"a.b","nodeID":"2"}: field is immutable
"#,
    );
    let capacity = object(Kind::CSIStorageCapacity, "storageClassName: fast\ncapacity: 5000").to_value();
    assert_eq!(capacity["capacity"], "5k");
    check(
        Kind::CSIStorageCapacity,
        r#"
storageClassName: fast\nnodeTopology: {matchLabels: {zone: a}}
storageClassName: F\ncapacity: -1
  ! storageClassName: Invalid value: "F": <subdomain>
  ! capacity: Invalid value: "-1": must be greater than or equal to 0
"#,
    );
    check_change(
        Kind::CSIStorageCapacity,
        r#"
storageClassName: fast
-> storageClassName: slow
  ! storageClassName: Invalid value: "slow": field is immutable
"#,
    );
    check(
        Kind::VolumeAttributesClass,
        r"
driverName: a.b\nparameters: {iops: '100'}
driverName: ''
  ! driverName: Required value
  ! parameters: Required value: must contain at least one key/value pair
",
    );
    check_change(
        Kind::VolumeAttributesClass,
        r"
driverName: a.b\nparameters: {iops: '100'}
-> driverName: a.c\nparameters: {iops: '200'}
  ! driverName: Forbidden: updates to driverName are forbidden.
  ! parameters: Forbidden: updates to parameters are forbidden.
",
    );
}
