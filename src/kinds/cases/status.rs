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
