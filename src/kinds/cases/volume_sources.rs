//! Validation of volume sources in pods and persistent volumes: for each rule, a value that it refuses and a similar
//! one that it accepts.

use super::*;

/// Pods that have one volume of this source.
const VOLUME: Template = Template::new(
    Kind::Pod,
    "metadata: {name: p}\nspec: {serviceAccountName: a, containers: [{name: c, image: i}], volumes: [{name: v, …}]}",
    "spec.volumes[0]",
);

/// Persistent volumes of this source.
const PERSISTENT: Template = Template::new(
    Kind::PersistentVolume,
    "spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], …}",
    "spec",
);

#[test]
fn volumes_of_other_machines_say_where_they_are_api_8() {
    VOLUME.check(
        r#"
nfs: {server: s, path: /}
nfs: {}
  ! .nfs.server: Required value
  ! .nfs.path: Required value
  ! .nfs.path: Invalid value: "": must be an absolute path
nfs: {server: s, path: a}
  ! .nfs.path: Invalid value: "a": must be an absolute path
gitRepo: {repository: r, directory: a}
gitRepo: {directory: ../a}
  ! .gitRepo.repository: Required value
  ! .gitRepo.directory: Invalid value: "../a": must not contain '..'
gcePersistentDisk: {pdName: d, partition: 1}
gcePersistentDisk: {partition: 256}
  ! .persistentDisk.pdName: Required value
  ! .persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive
awsElasticBlockStore: {volumeID: v}
awsElasticBlockStore: {partition: -1}
  ! .awsElasticBlockStore.volumeID: Required value
  ! .awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive
glusterfs: {endpoints: e, path: p}
glusterfs: {}
  ! .glusterfs.endpoints: Required value
  ! .glusterfs.path: Required value
flocker: {datasetName: a}
flocker: {}
  ! .flocker: Required value: one of datasetName and datasetUUID is required
flocker: {datasetName: a/b, datasetUUID: c}
  ! .flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously
  ! .flocker.datasetName: Invalid value: "a/b": must not contain '/'
rbd: {monitors: [m], image: i}
rbd: {}
  ! .rbd.monitors: Required value
  ! .rbd.image: Required value
cephfs: {monitors: [m]}
cephfs: {}
  ! .cephfs.monitors: Required value
cinder: {volumeID: v, secretRef: {name: s}}
cinder: {secretRef: {}}
  ! .cinder.volumeID: Required value
  ! .cinder.secretRef.name: Required value
flexVolume: {driver: d, options: {example.com/a: b}}
flexVolume: {options: {a.Kubernetes.io/b: c}}
  ! .flexVolume.driver: Required value
  ! .flexVolume.options[a.Kubernetes.io/b]: Invalid value: "a.Kubernetes.io/b": kubernetes.io and k8s.io namespaces are reserved
azureFile: {secretName: s, shareName: t}
azureFile: {}
  ! .azureFile.secretName: Required value
  ! .azureFile.shareName: Required value
azureDisk: {diskName: d, diskURI: 'https://a.blob.core.windows.net/c/d.vhd'}
azureDisk: {diskName: d, diskURI: /subscriptions/s, kind: Managed}
azureDisk: {cachingMode: Some, kind: Own}
  ! .azureDisk.diskName: Required value
  ! .azureDisk.diskURI: Required value
  ! .azureDisk.cachingMode: Unsupported value: "Some": supported values: "None", "ReadOnly", "ReadWrite"
  ! .azureDisk.kind: Unsupported value: "Own": supported values: "Dedicated", "Managed", "Shared"
  ! .azureDisk.diskURI: Unsupported value: "": supported values: "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
vsphereVolume: {volumePath: p}
vsphereVolume: {}
  ! .vsphereVolume.volumePath: Required value
photonPersistentDisk: {pdID: d}
photonPersistentDisk: {}
  ! .photonPersistentDisk.pdID: Required value
portworxVolume: {volumeID: v}
portworxVolume: {}
  ! .portworxVolume.volumeID: Required value
scaleIO: {gateway: g, system: s, volumeName: v, secretRef: {name: s}}
scaleIO: {secretRef: {name: s}}
  ! .scaleIO.gateway: Required value
  ! .scaleIO.system: Required value
  ! .scaleIO.volumeName: Required value
storageos: {volumeName: v, volumeNamespace: ns}
storageos: {secretRef: {}}
  ! .storageos.volumeName: Required value
  ! .storageos.secretRef.name: Required value
storageos: {volumeName: V}
  ! .storageos.volumeName: Invalid value: "V": <dns-label>
quobyte: {registry: 'a:1,b:2', volume: v}
quobyte: {}
  ! .quobyte.registry: Required value: must be a host:port pair or multiple pairs separated by commas
  ! .quobyte.volume: Required value
quobyte: {registry: a, volume: v}
  ! .quobyte.registry: Invalid value: "a": must be a host:port pair or multiple pairs separated by commas
"#,
    );
}

#[test]
fn block_devices_of_the_network_have_well_formed_names_api_8() {
    VOLUME.check(
        &r#"
iscsi: {targetPortal: 1.2.3.4, iqn: 'iqn.2001-04.com.example:storage:a', lun: 0}
iscsi: {targetPortal: p, iqn: eui.0123456789abcdef, lun: 255}
iscsi: {targetPortal: p, iqn: naa.62004567BA64678D0123456789ABCDEF, lun: 1}
iscsi: {lun: 256, chapAuthSession: true}
  ! .iscsi.targetPortal: Required value
  ! .iscsi.iqn: Required value
  ! .iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive
  ! .iscsi.secretRef: Required value
iscsi: {targetPortal: p, iqn: disk, lun: 0}
  ! .iscsi.iqn: Invalid value: "disk": must be valid format starting with iqn, eui, or naa
iscsi: {targetPortal: p, iqn: 'iqn.2001-4.com.example:a', lun: 0}
  ! .iscsi.iqn: Invalid value: "iqn.2001-4.com.example:a": must be valid format
iscsi: {targetPortal: p, iqn: eui.0123, lun: 0, initiatorName: x}
  ! .iscsi.iqn: Invalid value: "eui.0123": must be valid format
  ! .iscsi.initiatorname: Invalid value: "x": must be valid format starting with iqn, eui, or naa
iscsi: {targetPortal: <long>, iqn: eui.0123456789abcdef, lun: 0, initiatorName: eui.0123456789abcdef}
  ! .name: Invalid value: "v": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.
fc: {targetWWNs: [a], lun: 1}
fc: {wwids: [a]}
fc: {}
  ! .fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both
fc: {targetWWNs: [a], wwids: [b]}
  ! .fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously
  ! .fc.lun: Required value: lun is required if targetWWNs is specified
"#
        .replace("<long>", &"p".repeat(63)),
    );
}

#[test]
fn drivers_images_and_own_claims_are_named_api_8() {
    VOLUME.check(
        r#"
csi: {driver: d.example.com, nodePublishSecretRef: {name: s}}
csi: {nodePublishSecretRef: {}}
  ! .csi.driver: Required value
  ! .csi.nodePublishSecretRef.name: Required value
csi: {driver: D_}
  ! .csi.driver: Invalid value: "D_": <subdomain>
image: {reference: 'a:1'}
image: {reference: a, pullPolicy: Never}
image: {}
  ! .image.reference: Required value
image: {reference: a, pullPolicy: Sometimes}
  ! .image.pullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"
emptyDir: {sizeLimit: 1Gi}
emptyDir: {sizeLimit: -1}
  ! .emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity
nfs: {}, cephfs: {}
  ! .cephFS: Forbidden: may not specify more than 1 volume type
  ! .nfs.server: Required value
  ! .nfs.path: Required value
  ! .nfs.path: Invalid value: "": must be an absolute path
persistentVolumeClaim: {}
  ! .persistentVolumeClaim.claimName: Required value
"#,
    );
    VOLUME.check(
        r#"
ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}
ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}, {name: w, persistentVolumeClaim: {claimName: p-v}
  ! spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "p-v": must not reference a PVC that gets created for an ephemeral volume
"#,
    );
}

#[test]
fn projected_volumes_have_no_file_twice_api_8() {
    VOLUME.check(
        r#"
projected: {sources: [{secret: {name: s, items: [{key: k, path: a}]}}, {configMap: {name: c, items: [{key: k, path: b}]}}]}
projected: {sources: [{secret: {name: s, items: [{key: k, path: a}]}}, {configMap: {name: c, items: [{key: k, path: a}]}}]}
  ! .projected: Invalid value: "c": conflicting duplicate paths
projected: {sources: [{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}, {path: a, fieldRef: {fieldPath: metadata.uid}}]}}]}
  ! .projected: Invalid value: "a": conflicting duplicate paths
projected: {sources: [{}]}
  ! .projected.sources[0]: Required value: must specify a volume type per source
projected: {sources: [{secret: {name: s}, configMap: {name: c}}]}
  ! .projected.sources[0]: Forbidden: may not specify more than 1 volume type per source
projected: {sources: [{clusterTrustBundle: {name: b, path: a}}]}
projected: {sources: [{clusterTrustBundle: {name: 'example.com:s:b', path: a}}]}
projected: {sources: [{clusterTrustBundle: {signerName: example.com/s, path: a, labelSelector: {}}}]}
projected: {sources: [{clusterTrustBundle: {}}]}
  ! .projected.sources[0].clusterTrustBundle: Required value: either name or signerName must be specified
  ! .projected.sources[0].clusterTrustBundle.path: Required value
projected: {sources: [{clusterTrustBundle: {name: B, path: a, labelSelector: {}}}]}
  ! .projected.sources[0].clusterTrustBundle.name: Invalid value: "B": not a valid clustertrustbundlename: <subdomain>
  ! .projected.sources[0].clusterTrustBundle.labelSelector: Invalid value: {}: labelSelector must be unset if name is specified
projected: {sources: [{podCertificate: {signerName: ex.io/s, keyType: ED25519, credentialBundlePath: b.pem}}]}
projected: {sources: [{podCertificate: {signerName: s, keyType: DSA, maxExpirationSeconds: 10}}]}
  ! .projected.sources[0].podCertificate.signerName: Invalid value: "s": must be a fully qualified domain and path of the form 'example.com/signer-name'
  ! .projected.sources[0].podCertificate.keyType: Unsupported value: "DSA": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"
  ! .projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 10: if provided, maxExpirationSeconds must be >= 3600
  ! .projected.sources[0].podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath
"#,
    );
}

#[test]
fn persistent_volumes_say_where_they_are_api_8() {
    PERSISTENT.check(
        r#"
nfs: {server: s, path: /}
nfs: {server: s}
  ! .nfs.path: Required value
  ! .nfs.path: Invalid value: "": must be an absolute path
rbd: {monitors: [m], image: i}
rbd: {}
  ! .rbd.monitors: Required value
  ! .rbd.image: Required value
cephfs: {}
  ! .cephfs.monitors: Required value
iscsi: {targetPortal: p, iqn: disk, lun: 0}
  ! .iscsi.iqn: Invalid value: "disk": must be valid format
fc: {targetWWNs: [a]}
  ! .fc.lun: Required value: lun is required if targetWWNs is specified
glusterfs: {endpoints: e, path: p, endpointsNamespace: ns}
glusterfs: {endpoints: e, path: p, endpointsNamespace: ''}
  ! .glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name
cinder: {volumeID: v, secretRef: {name: s, namespace: ns}}
cinder: {volumeID: v, secretRef: {name: s}}
  ! .cinder.secretRef.namespace: Required value
azureFile: {secretName: s, shareName: t, secretNamespace: ns}
azureFile: {secretName: s, shareName: t, secretNamespace: ''}
  ! .azureFile.secretNamespace: Required value
csi: {driver: d, volumeHandle: h, nodeStageSecretRef: {}}
csi: {nodePublishSecretRef: {name: s}, controllerExpandSecretRef: {namespace: Bad}}
  ! .csi.driver: Required value
  ! .csi.volumeHandle: Required value
  ! .csi.controllerExpandSecretRef.name: Required value
  ! .csi.controllerExpandSecretRef.namespace: Invalid value: "Bad": <dns-label>
  ! .csi.nodePublishSecretRef.namespace: Required value
csi: {driver: d, volumeHandle: h}, volumeAttributesClassName: gold
hostPath: {path: /a}, volumeAttributesClassName: gold
  ! .csi: Required value: has to be specified when using volumeAttributesClassName
"#,
    );
    let csi = |more: &str| {
        format!(
            "spec: {{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], csi: {{driver: d, volumeHandle: h{more}}}}}"
        )
    };
    let secret = |name: &str| csi(&format!(", controllerExpandSecretRef: {{name: {name}, namespace: ns}}"));
    check_change(
        Kind::PersistentVolume,
        r"
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], csi: {driver: d, volumeHandle: h}}
-> spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], csi: {driver: d, volumeHandle: h, controllerExpandSecretRef: {name: s, namespace: ns}}}
",
    );
    let (old, new) =
        (object(Kind::PersistentVolume, &secret("s")), object(Kind::PersistentVolume, &secret("t")));
    let errors = messages(&validate_update(&new, &old));
    assert!(errors.len() == 1 && errors[0].contains("immutable after creation"), "{errors:?}");
}

#[test]
fn block_devices_are_claims_and_propagation_out_is_privileged_api_8() {
    check(
        Kind::Pod,
        r#"
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: p}}], containers: [{name: c, image: i, volumeDevices: [{name: v, devicePath: /dev/a}]}]}
spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: i, volumeDevices: [{name: v, devicePath: /dev/a}]}]}
  ! spec.containers[0].volumeDevices[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: p}}], containers: [{name: c, image: i, volumeDevices: [{name: w, devicePath: ''}]}]}
  ! spec.containers[0].volumeDevices[0].name: Not found: "w"
  ! spec.containers[0].volumeDevices[0].devicePath: Required value
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: p}}], containers: [{name: c, image: i, volumeDevices: [{name: v, devicePath: /a}, {name: v, devicePath: /a}]}]}
  ! spec.containers[0].volumeDevices[1].name: Invalid value: "v": must be unique
  ! spec.containers[0].volumeDevices[1].devicePath: Invalid value: "/a": must be unique
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: p}}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /a}], volumeDevices: [{name: v, devicePath: /a}]}]}
  ! spec.containers[0].volumeMounts[0].name: Invalid value: "v": must not already exist in volumeDevices
  ! spec.containers[0].volumeMounts[0].mountPath: Invalid value: "/a": must not already exist as a path in volumeDevices
  ! spec.containers[0].volumeDevices[0].name: Invalid value: "v": must not already exist in volumeMounts
  ! spec.containers[0].volumeDevices[0].devicePath: Invalid value: "/a": must not already exist as a path in volumeMounts
spec: {volumes: [{name: v, hostPath: {path: /a}}], containers: [{name: c, image: i, securityContext: {privileged: true}, volumeMounts: [{name: v, mountPath: /a, mountPropagation: Bidirectional}]}]}
spec: {volumes: [{name: v, hostPath: {path: /a}}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /a, mountPropagation: HostToContainer}]}]}
spec: {volumes: [{name: v, hostPath: {path: /a}}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /a, mountPropagation: Bidirectional}]}]}
  ! spec.containers[0].volumeMounts[0].mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers
# A volume with errors of its own does not count as mountable.
spec: {volumes: [{name: v, nfs: {path: /}}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /a}]}]}
  ! spec.volumes[0].nfs.server: Required value
  ! spec.containers[0].volumeMounts[0].name: Not found: "v"
"#,
    );
}
