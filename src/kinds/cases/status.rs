//! Rules of the status of single kinds.

use super::*;

#[test]
fn addresses_in_the_status_of_a_pod_are_one_of_each_family_api_8() {
    let pod = |status: &str| {
        format!("spec: {{containers: [{{name: c, image: i}}]}}\nstatus: {{phase: Running, {status}}}")
    };
    let check = |status: &str, expected: &[&str]| {
        check_status(Kind::Pod, &[(&pod(""), &pod(status), expected)]);
    };
    check("podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}], hostIP: 10.0.0.2, hostIPs: [{ip: 10.0.0.2}]", &[]);
    check(
        "podIPs: [{ip: 10.0.0.1}, {ip: 10.0.0.1}]",
        &[
            "status.podIPs: Invalid value: [{\"ip\":\"10.0.0.1\"},{\"ip\":\"10.0.0.1\"}]: may specify no more than one IP for each IP family",
            "status.podIPs[1]: Duplicate value: {\"ip\":\"10.0.0.1\"}",
        ],
    );
    check(
        "hostIP: 10.0.0.2, hostIPs: [{ip: 10.0.0.3}]",
        &["status.hostIPs[0].ip: Invalid value: \"10.0.0.3\": must be equal to `hostIP`"],
    );
    check("conditions: [{type: example.com/Own, status: 'True'}]", &[]);
    check(
        "conditions: [{type: '', status: 'True'}]",
        &[
            "metadata.conditions[0].Type: Invalid value: \"\": name part must be non-empty",
            "metadata.conditions[0].Type: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ],
    );
}
