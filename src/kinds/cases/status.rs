//! Rules of the status of single kinds.

use super::*;

#[test]
fn addresses_in_the_status_of_a_pod_are_one_of_each_family_api_8() {
    Template::new(
        Kind::Pod,
        "spec: {containers: [{name: c, image: i}]}\nstatus: {phase: Running, …}",
        "status",
    )
    .check_status(
        r#"
<empty>
-> podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}], hostIP: 10.0.0.2, hostIPs: [{ip: 10.0.0.2}]
<empty>
-> podIPs: [{ip: 10.0.0.1}, {ip: 10.0.0.1}]
  ! .podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.1"}]: may specify no more than one IP for each IP family
  ! .podIPs[1]: Duplicate value: {"ip":"10.0.0.1"}
<empty>
-> hostIP: 10.0.0.2, hostIPs: [{ip: 10.0.0.3}]
  ! .hostIPs[0].ip: Invalid value: "10.0.0.3": must be equal to `hostIP`
<empty>
-> conditions: [{type: example.com/Own, status: 'True'}]
<empty>
-> conditions: [{type: '', status: 'True'}]
  ! metadata.conditions[0].Type: Invalid value: "": name part must be non-empty
  ! metadata.conditions[0].Type: Invalid value: "": <qualified-name>
"#,
    );
}

#[test]
fn the_status_of_a_claim_has_known_resources_and_states_of_resizes_api_8() {
    Template::new(
        Kind::PersistentVolumeClaim,
        "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\nstatus: {…}",
        "status",
    )
    .check_status(
        r#"
<empty>
-> allocatedResources: {storage: 2Gi, example.com/iops: 5}, allocatedResourceStatuses: {storage: NodeResizePending, example.com/iops: NodeResizeInfeasible}
<empty>
-> allocatedResources: {cpu: 1, storage: -1}
  ! .allocatedResources: Unsupported value: "cpu": supported values: "storage"
  ! .allocatedResources[storage]: Invalid value: "-1": must be greater than or equal to 0
<empty>
-> allocatedResourceStatuses: {storage: NodeResizeFailed}
  ! .allocatedResourceStatus: Unsupported value: "storage": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"
<empty>
-> allocatedResourceStatuses: {'a b': NodeResizePending, node.kubernetes.io/a: NodeResizePending}
  ! .allocatedResourceStatus: Invalid value: "a b": <qualified-name>
  ! .allocatedResourceStatus: Unsupported value: "node.kubernetes.io/a": supported values: "storage"
# Entries that are older than the rules may stay.
allocatedResources: {cpu: 1}, allocatedResourceStatuses: {cpu: Odd}
-> allocatedResources: {cpu: 1, storage: 2Gi}, allocatedResourceStatuses: {cpu: Odd, storage: NodeResizePending}
allocatedResourceStatuses: {cpu: NodeResizePending}
-> allocatedResourceStatuses: {cpu: NodeResizeInProgress}
  ! .allocatedResourceStatus: Unsupported value: "cpu": supported values: "storage"
"#,
    );
}
