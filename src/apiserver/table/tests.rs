//! The columns and cells of every kind (API-6).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use kinds::built_in;
use object::Kind;

fn object(value: Value) -> Object {
    Object::from_any_value(value).expect("a known kind")
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().expect("a time")
}

#[test]
fn every_kind_has_a_cell_a_column_api_6() {
    let with = |kind: Kind, extra: Value| {
        let mut value = json!({"apiVersion": kind.info().api_version(), "kind": kind.info().name,
            "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:30:00Z"}});
        for (name, part) in extra.as_object().expect("fields") {
            value[name] = part.clone();
        }
        object(value)
    };
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}});
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "t", "operator": "In", "values": ["2", "1"]}]});
    let cases = [
        (Kind::Namespace, json!({"status": {"phase": "Active"}}), "n|Active|30m"),
        (
            Kind::Pod,
            json!({"spec": {"nodeName": "node-1", "containers": [{"name": "c"}]}, "status": {"phase": "Running", "podIP": "127.0.0.9"}}),
            "n|0/1|Running|0|30m|127.0.0.9|node-1|<none>|<none>",
        ),
        (
            Kind::Deployment,
            json!({"spec": {"replicas": 3, "selector": selector, "template": template},
                "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}}),
            "n|2/3|3|1|30m|a,b|x,y|app=web,t in (1,2)",
        ),
        (
            Kind::ReplicaSet,
            json!({"spec": {"replicas": 3, "selector": {}, "template": template}, "status": {"replicas": 2, "readyReplicas": 1}}),
            "n|3|2|1|30m|a,b|x,y|<none>",
        ),
        (
            Kind::Node,
            json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}}, "spec": {"unschedulable": true},
                "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}),
            "n|Ready,SchedulingDisabled|worker|<unknown>||127.0.0.1|<none>|<unknown>|<unknown>|<unknown>",
        ),
        (
            Kind::Event,
            json!({"involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"}, "type": "Warning",
                "reason": "BackOff", "message": " again\n", "count": 4, "source": {"component": "kubelet", "host": "node-1"},
                "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:59:00Z"}),
            "60s|Warning|BackOff|pod/p|spec.containers{c}|kubelet, node-1|again|60m|4|n",
        ),
        (Kind::ConfigMap, json!({"data": {"a": "1"}, "binaryData": {"b": "AA=="}}), "n|2|30m"),
        (Kind::Secret, json!({"type": "Opaque", "data": {"a": "AA=="}}), "n|Opaque|1|30m"),
        (Kind::ServiceAccount, json!({}), "n|0|30m"),
        (
            Kind::Service,
            json!({"spec": {"type": "NodePort", "clusterIP": "127.32.0.1", "selector": {"app": "web"},
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
            "n|NodePort|127.32.0.1|<none>|80:30080/TCP,53/UDP|30m|app=web",
        ),
        (
            Kind::Endpoints,
            json!({"subsets": [{"addresses": [{"ip": "1"}, {"ip": "2"}], "ports": [{"port": 80}, {"port": 81}]}]}),
            "n|1:80,2:80,1:81 + 1 more...|30m",
        ),
        (
            Kind::EndpointSlice,
            json!({"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["1"]}, {"addresses": ["2"]}]}),
            "n|IPv4|80|1,2|30m",
        ),
        (Kind::Lease, json!({"spec": {"holderIdentity": "node-1"}}), "n|node-1|30m"),
        (
            Kind::PodDisruptionBudget,
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}}),
            "n|50%|N/A|1|30m",
        ),
        (
            Kind::CustomResourceDefinition,
            json!({"spec": {"group": "a.test", "scope": "Cluster", "names": {"plural": "", "kind": ""}, "versions": []}}),
            "n|2026-01-01T00:30:00Z",
        ),
        (Kind::PriorityClass, json!({"value": 1000, "preemptionPolicy": "Never"}), "n|1000|false|30m|Never"),
        (
            Kind::ReplicationController,
            json!({"spec": {"replicas": 3, "selector": {"a": "b"}, "template": template}, "status": {"replicas": 2, "readyReplicas": 1}}),
            "n|3|2|1|30m|a,b|x,y|a=b",
        ),
        (
            Kind::PodTemplate,
            json!({"template": {"metadata": {"labels": {"a": "b"}}, "spec": template["spec"]}}),
            "n|a,b|x,y|a=b",
        ),
        (
            Kind::ControllerRevision,
            json!({"revision": 2, "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:30:00Z", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": true}]}}),
            "n|statefulset.apps/web|2|30m",
        ),
        (
            Kind::StatefulSet,
            json!({"spec": {"replicas": 3, "selector": {}, "template": template}, "status": {"replicas": 2, "readyReplicas": 1}}),
            "n|1/3|30m|a,b|x,y",
        ),
        (
            Kind::DaemonSet,
            json!({"spec": {"selector": selector, "template": {"spec": {"nodeSelector": {"disk": "ssd"}, "containers": []}}},
                "status": {"desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberReady": 2, "updatedNumberScheduled": 1,
                    "numberAvailable": 1, "numberMisscheduled": 0}}),
            "n|4|3|2|1|1|disk=ssd|30m|||app=web,t in (1,2)",
        ),
        (
            Kind::Job,
            json!({"spec": {"completions": 3, "parallelism": 1, "selector": {"matchLabels": {"u": "1"}}, "template": template},
                "status": {"succeeded": 2, "startTime": "2026-01-01T00:30:00Z"}}),
            "n|Running|2/3|30m|30m|a,b|x,y|u=1",
        ),
        (
            Kind::Job,
            json!({"spec": {"parallelism": 2, "template": template}, "status": {"startTime": "2026-01-01T00:30:00Z",
                "completionTime": "2026-01-01T00:30:05Z", "succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}}),
            "n|Complete|1/1 of 2|5s|30m|a,b|x,y|<none>",
        ),
        (
            Kind::CronJob,
            json!({"spec": {"schedule": "* * * * *", "suspend": false, "jobTemplate": {"spec": {"template": template}}},
                "status": {"active": [{}], "lastScheduleTime": "2026-01-01T00:59:00Z"}}),
            "n|* * * * *|<none>|False|1|60s|30m|a,b|x,y|<none>",
        ),
        (
            Kind::HorizontalPodAutoscaler,
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 5, "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}}]},
                "status": {"currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 10}}}]}}),
            "n|Deployment/web|cpu: 10%/50%, memory: <unknown>/1Gi + 1 more...|1|5|2|30m",
        ),
        (
            Kind::ResourceQuota,
            json!({"status": {"hard": {"limits.cpu": "4", "pods": "10", "requests.cpu": "2"}, "used": {"pods": "3", "requests.cpu": "1"}}}),
            "n|pods: 3/10, requests.cpu: 1/2|limits.cpu: 0/4|30m",
        ),
        (Kind::LimitRange, json!({"spec": {"limits": []}}), "n|2026-01-01T00:30:00Z"),
        (
            Kind::Ingress,
            json!({"spec": {"ingressClassName": "nginx", "tls": [{"hosts": ["a"]}],
                "rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}, {"http": {"paths": []}}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "lb"}]}}}),
            "n|nginx|a,b,c + 2 more...|10.0.0.1,lb|80, 443|30m",
        ),
        (Kind::Ingress, json!({"spec": {"rules": [{}]}}), "n|<none>|*||80|30m"),
        (
            Kind::IngressClass,
            json!({"spec": {"controller": "a.b/c", "parameters": {"apiGroup": "g", "kind": "K", "name": "p"}}}),
            "n|a.b/c|K.g/p|30m",
        ),
        (
            Kind::NetworkPolicy,
            json!({"spec": {"podSelector": {"matchLabels": {"app": "web"}}}}),
            "n|app=web|30m",
        ),
        (
            Kind::CSIDriver,
            json!({"spec": {"attachRequired": true, "podInfoOnMount": false, "storageCapacity": false,
                "tokenRequests": [{"audience": "a"}, {"audience": "b"}], "requiresRepublish": true, "volumeLifecycleModes": ["Persistent"]}}),
            "n|true|false|false|a,b|true|Persistent|30m",
        ),
        (
            Kind::APIService,
            json!({"spec": {"groupPriorityMinimum": 1, "versionPriority": 1, "service": {"namespace": "s", "name": "x"}},
                "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]}}),
            "n|s/x|False (MissingEndpoints)|30m",
        ),
        (Kind::RuntimeClass, json!({"handler": "runsc"}), "n|runsc|30m"),
        (
            Kind::VolumeAttachment,
            json!({"spec": {"attacher": "a.b", "nodeName": "node-1", "source": {"persistentVolumeName": "v"}},
                "status": {"attached": true}}),
            "n|a.b|v|node-1|true|30m",
        ),
        (Kind::CSINode, json!({"spec": {"drivers": [{"name": "a.b", "nodeID": "1"}]}}), "n|1|30m"),
        (Kind::CSIStorageCapacity, json!({"storageClassName": "fast", "capacity": "5Gi"}), "n|fast|5Gi"),
        (Kind::CSIStorageCapacity, json!({"storageClassName": "fast"}), "n|fast|<unset>"),
        (Kind::VolumeAttributesClass, json!({"driverName": "a.b"}), "n|a.b|30m"),
        (
            Kind::IPAddress,
            json!({"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}}),
            "n|services/default/web|30m",
        ),
        (
            Kind::IPAddress,
            json!({"spec": {"parentRef": {"group": "a.b", "resource": "gateways", "name": "web"}}}),
            "n|gateways.a.b/web|30m",
        ),
        (
            Kind::ServiceCIDR,
            json!({"spec": {"cidrs": ["10.0.0.0/24", "fd00::/112"]}}),
            "n|10.0.0.0/24,fd00::/112|30m",
        ),
        (
            Kind::FlowSchema,
            json!({"spec": {"priorityLevelConfiguration": {"name": "system"}, "matchingPrecedence": 500,
                "distinguisherMethod": {"type": "ByUser"}},
                "status": {"conditions": [{"type": "Dangling", "status": "False"}]}}),
            "n|system|500|ByUser|30m|False",
        ),
        (
            Kind::FlowSchema,
            json!({"spec": {"priorityLevelConfiguration": {"name": "l"}}}),
            "n|l|0|<none>|30m|?",
        ),
        (
            Kind::PriorityLevelConfiguration,
            json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 30, "limitResponse": {"type": "Queue",
                "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50}}}}}),
            "n|Limited|30|64|6|50|30m",
        ),
        (
            Kind::PriorityLevelConfiguration,
            json!({"spec": {"type": "Exempt"}}),
            "n|Exempt|<none>|<none>|<none>|<none>|30m",
        ),
        (Kind::DeviceClass, json!({"spec": {}}), "n|30m"),
        (Kind::DeviceTaintRule, json!({"spec": {"taint": {"key": "k", "effect": "None"}}}), "n|30m"),
        (Kind::ResourceClaim, json!({"spec": {}}), "n|pending|30m"),
        (
            Kind::ResourceClaim,
            json!({"spec": {}, "status": {"allocation": {}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}),
            "n|allocated,reserved|30m",
        ),
        (Kind::ResourceClaimTemplate, json!({"spec": {}}), "n|30m"),
        (
            Kind::ResourceSlice,
            json!({"spec": {"driver": "gpu.a.b", "nodeName": "node-1",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}),
            "n|node-1|gpu.a.b|p|30m",
        ),
        (Kind::MutatingWebhookConfiguration, json!({"webhooks": []}), "n|0|30m"),
        (Kind::ValidatingWebhookConfiguration, json!({}), "n|0|30m"),
        (
            Kind::ValidatingAdmissionPolicy,
            json!({"spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "true"}]}}),
            "n|1|v1/ConfigMap|30m",
        ),
        (Kind::ValidatingAdmissionPolicy, json!({}), "n|0|<unset>|30m"),
        (
            Kind::MutatingAdmissionPolicy,
            json!({"spec": {"mutations": [{"patchType": "JSONPatch"}]}}),
            "n|1|<unset>|30m",
        ),
        (
            Kind::MutatingAdmissionPolicyBinding,
            json!({"spec": {"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}}),
            "n|p|a=b|30m",
        ),
        (
            Kind::ValidatingAdmissionPolicyBinding,
            json!({"spec": {"policyName": "p", "paramRef": {"name": "l", "namespace": "a"}, "validationActions": []}}),
            "n|p|a/l|30m",
        ),
        (Kind::PodPreset, json!({}), "n|2026-01-01T00:30:00Z"),
        (Kind::Role, json!({}), "n|2026-01-01T00:30:00Z"),
        (Kind::ClusterRole, json!({}), "n|2026-01-01T00:30:00Z"),
        (
            Kind::RoleBinding,
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
                {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "name": "a", "namespace": "ns"}]}),
            "n|Role/r|30m|u, v|g|ns/a",
        ),
        (
            Kind::ClusterRoleBinding,
            json!({"roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "Group", "name": "g"}]}),
            "n|ClusterRole/view|30m||g|",
        ),
        (
            Kind::CertificateSigningRequest,
            json!({"spec": {"request": "", "signerName": "a.b/c", "username": "jane", "expirationSeconds": 3600},
                "status": {"certificate": "AA==", "conditions": [{"type": "Approved", "status": "True"}]}}),
            "n|30m|a.b/c|jane|60m|Approved,Issued",
        ),
        (
            Kind::StorageClass,
            json!({"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", "metadata": {"name": "n",
                "creationTimestamp": "2026-01-01T00:30:00Z", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}),
            "n (default)|p|Delete|Immediate|false|30m",
        ),
        (
            Kind::PersistentVolume,
            json!({"spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "d", "name": "c"},
                    "storageClassName": "fast", "volumeMode": "Filesystem"}, "status": {"phase": "Bound"}}),
            "n|5Gi|RWO,RWX|Retain|Bound|d/c|fast|<unset>||30m|Filesystem",
        ),
        (
            Kind::PersistentVolumeClaim,
            json!({"spec": {"volumeName": "v", "storageClassName": "fast"},
                "status": {"phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOncePod"]}}),
            "n|Bound|v|5Gi|RWOP|fast|<unset>|30m|<unset>",
        ),
    ];
    for kind in Kind::BUILT_IN {
        assert!(cases.iter().any(|(shown, ..)| shown == kind), "{kind} is not shown here");
    }
    for (kind, extra, expect) in cases {
        let cells = built_in(kind).cells(&with(kind, extra), now());
        assert_eq!(cells.len(), built_in(kind).columns().len(), "{kind}");
        let text: Vec<String> =
            cells.iter().map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_string)).collect();
        assert_eq!(text.join("|"), expect, "{kind}");
    }
}

#[test]
fn a_row_has_the_requested_part_of_its_object_api_6() {
    let pod =
        object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": []}, "status": {"phase": "Succeeded"}}));
    let metadata = TableMeta { resource_version: "7".into(), ..TableMeta::default() };
    let made = |include| -> Value {
        let table = Table::new(built_in(Kind::Pod), Kind::Pod.into(), MetaVersion::V1, include, now());
        let bytes = table.whole([&pod], &metadata);
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let partial = made(IncludeObject::Metadata);
    assert_eq!((&partial["kind"], &partial["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(partial["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(partial["columnDefinitions"][5]["priority"], 1);
    assert_eq!(
        partial["rows"][0]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "p", "labels": {"a": "b"}}})
    );
    assert_eq!(partial["rows"][0]["conditions"][0]["reason"], "Succeeded");
    assert_eq!(made(IncludeObject::Object)["rows"][0]["object"]["spec"], json!({"containers": []}));
    assert_eq!(made(IncludeObject::None)["rows"][0]["object"], Value::Null);
}
