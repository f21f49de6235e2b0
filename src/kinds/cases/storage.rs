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
    let volume = |part: &str, other: &str| with(VOLUME, part, other);
    let source = |text: &str| volume("hostPath: {path: /srv}", text);
    let affinity =
        "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}";
    let cases: Vec<(String, &[&str])> = vec![
        (VOLUME.into(), &[]),
        (volume("accessModes: [ReadWriteOnce], ", ""), &["spec.accessModes: Required value"]),
        (
            volume("[ReadWriteOnce]", "[ReadWriteTwice]"),
            &[
                "spec.accessModes: Unsupported value: \"ReadWriteTwice\": supported values: \"ReadOnlyMany\", \
               \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
            ],
        ),
        (
            volume("[ReadWriteOnce]", "[ReadWriteOnce, ReadWriteOncePod]"),
            &["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
        ),
        (
            volume("capacity: {storage: 5Gi}, ", ""),
            &[
                "spec.capacity: Required value",
                "spec.capacity: Unsupported value: null: supported values: \"storage\"",
            ],
        ),
        (
            volume("storage: 5Gi", "storage: 0"),
            &["spec.capacity[storage]: Invalid value: \"0\": must be greater than zero"],
        ),
        (
            volume("storage: 5Gi", "storage: -1"),
            &["spec.capacity[storage]: Invalid value: \"-1\": must be greater than or equal to 0"],
        ),
        (
            volume("storage: 5Gi", "cpu: 1"),
            &["spec.capacity: Unsupported value: {\"cpu\":\"1\"}: supported values: \"storage\""],
        ),
        (source("storageClassName: x"), &["spec: Required value: must specify a volume type"]),
        (
            source("hostPath: {path: /srv}, nfs: {server: s, path: /}"),
            &["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (source("hostPath: {path: ''}"), &["spec.hostPath.path: Required value"]),
        (
            source("hostPath: {path: /a/../b}"),
            &["spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
        ),
        (
            source("hostPath: {path: //.}, persistentVolumeReclaimPolicy: Recycle"),
            &[
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
            ],
        ),
        (
            source("hostPath: {path: /a}, persistentVolumeReclaimPolicy: Keep"),
            &[
                "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Keep\": supported values: \"Delete\", \
               \"Recycle\", \"Retain\"",
            ],
        ),
        (
            source("local: {path: /mnt}"),
            &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (source(&format!("local: {{path: /mnt}}, {affinity}")), &[]),
        (
            source("hostPath: {path: /a}, nodeAffinity: {}"),
            &["spec.nodeAffinity.required: Required value: must specify required node constraints"],
        ),
        (
            source("hostPath: {path: /a}, nodeAffinity: {required: {nodeSelectorTerms: []}}"),
            &[
                "spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term",
            ],
        ),
        (
            source("hostPath: {path: /a}, volumeMode: Tape"),
            &["spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\""],
        ),
    ];
    for (text, expected) in cases {
        check(Kind::PersistentVolume, &[(&text, expected)]);
    }
}

#[test]
fn claims_ask_for_a_size_and_a_use_vol_2() {
    let claim = |part: &str, other: &str| with(CLAIM, part, other);
    let cases: Vec<(String, &[&str])> = vec![
        (CLAIM.into(), &[]),
        (
            claim("accessModes: [ReadWriteOnce], ", ""),
            &["spec.accessModes: Required value: at least 1 access mode is required"],
        ),
        (claim("{storage: 5Gi}", "{}"), &["spec.resources[storage]: Required value"]),
        (
            claim("storage: 5Gi", "storage: 0"),
            &["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
        ),
        (
            claim("resources", "selector: {matchExpressions: [{key: a, operator: Maybe}]}, resources"),
            &[
                "spec.selector.matchExpressions[0].operator: Invalid value: \"Maybe\": not a valid selector operator",
            ],
        ),
        (claim("resources", "storageClassName: '', resources"), &[]),
        (
            claim("resources", "dataSource: {kind: Thing, name: ''}, resources"),
            &[
                "spec.dataSource.name: Required value",
                "spec.dataSource: Invalid value: \"Thing\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            ],
        ),
    ];
    for (text, expected) in cases {
        check(Kind::PersistentVolumeClaim, &[(&text, expected)]);
    }
    check_pod(&[
        (
            "volumes: [{name: v, ephemeral: {}}]",
            &["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"],
        ),
        (
            "volumes: [{name: v, ephemeral: {volumeClaimTemplate: {metadata: {name: x}, spec: {accessModes: [ReadWriteOnce]}}}}]",
            &[
                "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
                "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
            ],
        ),
    ]);
}

/// Returns the errors of an update, without the diff that some of them contain.
fn changes(kind: Kind, old: &str, new: &str) -> Vec<String> {
    let errors = messages(&validate_update(&object(kind, new), &object(kind, old)));
    errors.iter().map(|e| e.lines().next().unwrap_or_default().to_string()).collect()
}

#[test]
fn the_request_of_a_claim_may_only_grow_vol_2() {
    let bound = format!("{CLAIM}\nstatus: {{phase: Bound, capacity: {{storage: 5Gi}}}}");
    let frozen = "spec: Forbidden: spec is immutable after creation except resources.requests and \
        volumeAttributesClassName for bound claims";
    for (rule, old, new, expected) in [
        ("a bound one grows", bound.clone(), with(&bound, "storage: 5Gi}}}\n", "storage: 6Gi}}}\n"), vec![]),
        (
            "it never shrinks below what it has",
            bound.clone(),
            with(&bound, "storage: 5Gi}}}\n", "storage: 4Gi}}}\n"),
            vec!["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
        ),
        ("a pending one does not grow", CLAIM.into(), with(CLAIM, "5Gi", "6Gi"), vec![frozen]),
        ("its use stays", bound.clone(), with(&bound, "[ReadWriteOnce]", "[ReadWriteMany]"), vec![frozen]),
        ("it gets a volume", CLAIM.into(), with(CLAIM, "resources", "volumeName: v, resources"), vec![]),
        (
            "and keeps it",
            with(CLAIM, "resources", "volumeName: v, resources"),
            with(CLAIM, "resources", "volumeName: w, resources"),
            vec![frozen],
        ),
        ("it gets a class", CLAIM.into(), with(CLAIM, "resources", "storageClassName: a, resources"), vec![]),
        (
            "none is a class, too",
            with(CLAIM, "resources", "storageClassName: '', resources"),
            with(CLAIM, "resources", "storageClassName: a, resources"),
            vec![frozen],
        ),
        (
            "its mode stays",
            with(CLAIM, "resources", "volumeMode: Block, resources"),
            with(CLAIM, "resources", "volumeMode: Filesystem, resources"),
            vec![frozen, "volumeMode: Invalid value: \"Filesystem\": field is immutable"],
        ),
    ] {
        assert_eq!(changes(Kind::PersistentVolumeClaim, &old, &new), expected, "{rule}");
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
    for (rule, old, new, expected) in [
        ("size", VOLUME.to_string(), with(VOLUME, "5Gi", "9Gi"), vec![]),
        (
            "policy",
            VOLUME.into(),
            with(VOLUME, plain, "hostPath: {path: /srv}, persistentVolumeReclaimPolicy: Delete"),
            vec![],
        ),
        (
            "place",
            VOLUME.into(),
            with(VOLUME, "/srv", "/etc"),
            vec![
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
            ],
        ),
        ("affinity set later", VOLUME.into(), with(VOLUME, plain, &affinity("a")), vec![]),
    ] {
        assert_eq!(changes(Kind::PersistentVolume, &old, &new), expected, "{rule}");
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
        &[
            ("provisioner: podium.dev/directory", &[]),
            ("{}", &["provisioner: Required value"]),
            (
                "provisioner: x\nreclaimPolicy: Recycle",
                &["reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\""],
            ),
            (
                "provisioner: x\nvolumeBindingMode: Later",
                &[
                    "volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
                ],
            ),
            (
                "provisioner: x\nparameters: {'': v}",
                &["parameters: Invalid value: \"\": field can not be empty."],
            ),
            (
                "provisioner: x\nallowedTopologies: [{matchLabelExpressions: [{key: z, values: []}, {key: w, values: [a, a]}]}]",
                &[
                    "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
                    "allowedTopologies[0].matchLabelExpressions[1].values[1]: Duplicate value: \"a\"",
                ],
            ),
            (
                "provisioner: x\nallowedTopologies: [{matchLabelExpressions: [{key: z, values: [a, b]}]}, {matchLabelExpressions: [{key: z, values: [a]}]}, {matchLabelExpressions: [{key: z, values: [b, a]}]}]",
                &["allowedTopologies[2].matchLabelExpressions: Duplicate value: \"\""],
            ),
        ],
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
        &[
            ("spec: {attacher: a.b, nodeName: node-1, source: {persistentVolumeName: v}}", &[]),
            (
                "spec: {attacher: '', nodeName: Node, source: {}}",
                &[
                    "spec.attacher: Required value",
                    "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                    &format!("spec.nodeName: Invalid value: \"Node\": {SUBDOMAIN}"),
                ],
            ),
            (
                "spec: {attacher: a.b, nodeName: node-1, source: {inlineVolumeSpec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce]}}}",
                &[
                    "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
                    "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
                    "spec.source.inlineVolumeSpec: Required value: must specify a volume type",
                ],
            ),
        ],
    );
    check_change(
        Kind::VolumeAttachment,
        &[(
            "spec: {attacher: a.b, nodeName: node-1, source: {persistentVolumeName: v}}",
            "spec: {attacher: a.b, nodeName: node-2, source: {persistentVolumeName: v}}",
            &[
                "spec: Invalid value: {\"attacher\":\"a.b\",\"nodeName\":\"node-2\",\"source\":{\"persistentVolumeName\":\"v\"}}: field is immutable",
            ],
        )],
    );
    let long = format!("status: {{attached: false, attachError: {{message: {}}}}}", "x".repeat(1025));
    check_status(
        Kind::VolumeAttachment,
        &[(
            "spec: {attacher: a.b, nodeName: node-1, source: {persistentVolumeName: v}}",
            &format!(
                "spec: {{attacher: a.b, nodeName: node-1, source: {{persistentVolumeName: v}}}}\n{long}"
            ),
            &["status.attachError.message: Too long: may not be more than 1024 bytes"],
        )],
    );
    check_status(
        Kind::VolumeAttachment,
        &[(
            "",
            "status: {attached: false, detachError: {errorCode: -1}, attachError: {errorCode: 8}}",
            &["status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"],
        )],
    );
    check(
        Kind::CSINode,
        &[
            (
                "spec: {drivers: [{name: a.b, nodeID: '1', topologyKeys: [a.b/zone], allocatable: {count: 5}}]}",
                &[],
            ),
            (
                "spec: {drivers: [{name: a.b, nodeID: '', allocatable: {count: -1}}, {name: a.b, nodeID: '1', topologyKeys: [z, z]}]}",
                &[
                    "spec.drivers[0].nodeID: Required value",
                    "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                    "spec.drivers[1]: Duplicate value: \"z\"",
                    "spec.drivers[1].name: Duplicate value: \"a.b\"",
                ],
            ),
        ],
    );
    check_change(
        Kind::CSINode,
        &[
            (
                "spec: {drivers: [{name: a.b, nodeID: '1'}]}",
                "spec: {drivers: [{name: a.b, nodeID: '1', allocatable: {count: 1}}, {name: c.d, nodeID: '1'}]}",
                &[],
            ),
            (
                "spec: {drivers: [{name: a.b, nodeID: '1'}]}",
                "spec: {drivers: [{name: a.b, nodeID: '2'}]}",
                &["spec.drivers: Invalid value: {\"name\":\"a.b\",\"nodeID\":\"2\"}: field is immutable"],
            ),
        ],
    );
    let capacity = object(Kind::CSIStorageCapacity, "storageClassName: fast\ncapacity: 5000").to_value();
    assert_eq!(capacity["capacity"], "5k");
    check(
        Kind::CSIStorageCapacity,
        &[
            ("storageClassName: fast\nnodeTopology: {matchLabels: {zone: a}}", &[]),
            (
                "storageClassName: F\ncapacity: -1",
                &[
                    &format!("storageClassName: Invalid value: \"F\": {SUBDOMAIN}"),
                    "capacity: Invalid value: \"-1\": must be greater than or equal to 0",
                ],
            ),
        ],
    );
    check_change(
        Kind::CSIStorageCapacity,
        &[(
            "storageClassName: fast",
            "storageClassName: slow",
            &["storageClassName: Invalid value: \"slow\": field is immutable"],
        )],
    );
    check(
        Kind::VolumeAttributesClass,
        &[
            ("driverName: a.b\nparameters: {iops: '100'}", &[]),
            (
                "driverName: ''",
                &[
                    "driverName: Required value",
                    "parameters: Required value: must contain at least one key/value pair",
                ],
            ),
        ],
    );
    check_change(
        Kind::VolumeAttributesClass,
        &[(
            "driverName: a.b\nparameters: {iops: '100'}",
            "driverName: a.c\nparameters: {iops: '200'}",
            &[
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
            ],
        )],
    );
}
