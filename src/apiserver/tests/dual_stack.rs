//! IP families of services, as requested and as allocated (SVC-1, NET-5).

use super::*;
use api::DeleteOptions;
use object::{Key, Kind};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn dual() -> ApiConfig {
    ApiConfig {
        service_range: "10.96.0.0/16".parse().unwrap(),
        service_range_v6: Some("fd00:10:96::/112".parse().unwrap()),
        ..ApiConfig::default()
    }
}

fn single() -> ApiConfig {
    ApiConfig { service_range_v6: None, ..dual() }
}

fn service(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["ports"].is_null() && spec["clusterIP"] != "None" && spec["type"] != "ExternalName" {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"metadata": {"name": "web"}, "spec": spec})
}

/// Policy, families, and the families of its addresses.
fn family_summary(body: &Value) -> String {
    let spec = &body["spec"];
    let list = |field: &str| -> Vec<String> {
        spec[field].as_array().into_iter().flatten().filter_map(|v| v.as_str().map(Into::into)).collect()
    };
    let ips: Vec<String> = list("clusterIPs");
    assert_eq!(spec["clusterIP"].as_str(), ips.first().map(String::as_str), "both say the same");
    let range = |ip: &String| match ip.as_str() {
        "None" => "None",
        ip if ip.starts_with("10.96.") => "4",
        ip if ip.starts_with("fd00:10:96::") => "6",
        _ => "elsewhere",
    };
    let families = list("ipFamilies").join(",");
    let ips: Vec<&str> = ips.iter().map(range).collect();
    format!("{} {families} {}", spec["ipFamilyPolicy"].as_str().unwrap_or("-"), ips.join(","))
}

/// The result of a service's creation, or the error without the object's name.
fn summary_of(answer: &TestResponse) -> String {
    match answer.code {
        200 | 201 => family_summary(&answer.body),
        _ => answer.message().replace("Service \"web\" is invalid: ", ""),
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_the_families_that_it_asks_for_and_the_cluster_has_svc_1_net_5() {
    let on_both = [
        (json!({}), "SingleStack IPv4 4"),
        (json!({"ipFamilies": ["IPv6"]}), "SingleStack IPv6 6"),
        (json!({"clusterIP": "fd00:10:96::99"}), "SingleStack IPv6 6"),
        (json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4,IPv6 4,6"),
        (json!({"ipFamilyPolicy": "RequireDualStack"}), "RequireDualStack IPv4,IPv6 4,6"),
        (
            json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
            "RequireDualStack IPv6,IPv4 6,4",
        ),
        (
            json!({"ipFamilyPolicy": "PreferDualStack", "clusterIP": "10.96.3.3",
                "clusterIPs": ["10.96.3.3", "fd00:10:96::33"]}),
            "PreferDualStack IPv4,IPv6 4,6",
        ),
        (json!({"clusterIP": "None"}), "RequireDualStack IPv4,IPv6 None"),
        (json!({"clusterIP": "None", "selector": {"a": "b"}}), "SingleStack IPv4 None"),
        (
            json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack IPv4,IPv6 None",
        ),
        (json!({"type": "ExternalName", "externalName": "a.b"}), "-  "),
        (
            json!({"type": "ExternalName", "externalName": "a.b", "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack"}),
            "[spec.ipFamilies: Forbidden: may not be set for ExternalName services, spec.ipFamilyPolicy: \
             Forbidden: may not be set for ExternalName services]",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or \
             'PreferDualStack' when multiple IP families are specified",
        ),
        (
            json!({"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.3", "fd00:10:96::33"]}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or \
             'PreferDualStack' when multiple cluster IPs are specified",
        ),
        (
            json!({"clusterIPs": ["10.96.3.3"]}),
            "spec.clusterIPs: Invalid value: [\"10.96.3.3\"]: must be empty when `clusterIP` is not specified",
        ),
        (
            json!({"clusterIP": "10.96.3.4", "clusterIPs": ["10.96.3.3"]}),
            "spec.clusterIPs: Invalid value: [\"10.96.3.3\"]: first value must match `clusterIP`",
        ),
        (
            json!({"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.3", "10.96.3.4"],
                "ipFamilyPolicy": "RequireDualStack"}),
            "spec.clusterIPs: Invalid value: [\"10.96.3.3\",\"10.96.3.4\"]: may specify no more than one IP for \
             each IP family",
        ),
        (
            json!({"clusterIP": "None", "clusterIPs": ["None", "10.96.3.4"]}),
            "spec.clusterIPs: Invalid value: [\"None\",\"10.96.3.4\"]: 'None' must be the first and only value",
        ),
        (
            json!({"clusterIP": "fd00:10:96::33", "ipFamilies": ["IPv4"]}),
            "spec.clusterIPs[0]: Invalid value: \"fd00:10:96::33\": expected an IPv4 value as indicated by \
             `ipFamilies[0]`",
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv4"]}),
            "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
        ),
        (
            json!({"ipFamilies": ["IPv5"], "ipFamilyPolicy": "Both"}),
            "[spec.ipFamilies[0]: Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\", \
             spec.ipFamilyPolicy: Unsupported value: \"Both\": supported values: \"PreferDualStack\", \
             \"RequireDualStack\", \"SingleStack\"]",
        ),
        (
            json!({"clusterIP": "fd00:11::1"}),
            "spec.clusterIPs: Invalid value: [\"fd00:11::1\"]: failed to allocate IP fd00:11::1: the provided IP \
             is not in the valid range. The range of valid IPs is fd00:10:96::/112",
        ),
    ];
    let on_one = [
        (json!({}), "SingleStack IPv4 4"),
        (json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4 4"),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for \
             dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"clusterIP": "fd00:10:96::99"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00:10:96::99\"]: IPv6 is not configured on this cluster",
        ),
        (json!({"clusterIP": "None"}), "RequireDualStack IPv4,IPv6 None"),
        (
            json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for \
             dual-stack services",
        ),
    ];
    for (config, cases) in [(dual(), &on_both[..]), (single(), &on_one[..])] {
        for (spec, expected) in cases {
            let client = Client::with(config.clone()).await;
            let answer = client.post(SERVICES, &service(spec)).await;
            assert_eq!(summary_of(&answer), *expected, "{spec}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_changes_between_one_family_and_two_by_its_policy_svc_1_net_5() {
    let two = json!({"ipFamilyPolicy": "PreferDualStack"});
    let cases = [
        // One that requests a second family gets it, with either policy.
        (json!({}), json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4,IPv6 4,6"),
        (json!({}), json!({"ipFamilyPolicy": "RequireDualStack"}), "RequireDualStack IPv4,IPv6 4,6"),
        (two.clone(), json!({"ipFamilyPolicy": "SingleStack"}), "SingleStack IPv4 4"),
        (two.clone(), json!({"ipFamilyPolicy": "RequireDualStack"}), "RequireDualStack IPv4,IPv6 4,6"),
        (two.clone(), json!({"sessionAffinity": "ClientIP"}), "PreferDualStack IPv4,IPv6 4,6"),
        (
            two.clone(),
            json!({"ipFamilies": ["IPv4"]}),
            "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be 'SingleStack' to release the \
             secondary IP family",
        ),
        (two.clone(), json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}), "SingleStack IPv4 4"),
        (
            two.clone(),
            json!({"ipFamilies": ["IPv6", "IPv4"]}),
            "[spec.clusterIPs[0]: Invalid value: \"V4\": expected an IPv6 value as indicated by \
             `ipFamilies[0]`, spec.clusterIPs[1]: Invalid value: \"V6\": expected an IPv4 value as indicated by \
             `ipFamilies[1]`]",
        ),
        (
            json!({}),
            json!({"ipFamilies": ["IPv6"]}),
            "spec.clusterIPs[0]: Invalid value: \"V4\": expected an IPv6 value as indicated by `ipFamilies[0]`",
        ),
        (
            json!({}),
            json!({"clusterIP": "10.96.200.200"}),
            "spec.clusterIPs[0]: Invalid value: [\"10.96.200.200\"]: may not change once set",
        ),
        (json!({}), json!({"clusterIP": null, "clusterIPs": null}), "SingleStack IPv4 4"),
        (two, json!({"type": "ExternalName", "externalName": "a.b"}), "-  "),
        (
            json!({"type": "ExternalName", "externalName": "a.b"}),
            json!({"type": "ClusterIP", "externalName": null, "ports": [{"port": 80}],
                "ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack IPv4,IPv6 4,6",
        ),
    ];
    for (old, change, expected) in cases {
        let client = Client::with(dual()).await;
        let made = client.post(SERVICES, &service(&old)).await;
        assert_eq!(made.code, 201, "{}", made.body);
        let answer = client.patch(&format!("{SERVICES}/web"), MERGE, &json!({"spec": change})).await;
        let ip = |n: usize| made.body["spec"]["clusterIPs"][n].as_str().unwrap_or("none").to_owned();
        let summary = summary_of(&answer).replace(&ip(0), "V4").replace(&ip(1), "V6");
        assert_eq!(summary, expected, "{old} {change}");
        let stays = &made.body["spec"]["clusterIP"];
        if !stays.is_null() && answer.code == 200 && change["type"].is_null() {
            assert_eq!(answer.body["spec"]["clusterIP"], *stays, "the primary address stays: {change}");
        }
    }
}

/// The object as kubectl replace and older clients send it: complete, without the fields that the API set.
#[tokio::test(start_paused = true)]
async fn a_whole_object_without_addresses_keeps_both_svc_1() {
    let client = Client::with(dual()).await;
    let requested = service(&json!({"ipFamilyPolicy": "RequireDualStack"}));
    let made = client.post(SERVICES, &requested).await;
    let path = format!("{SERVICES}/web");
    let again = client.put(&path, &service(&json!({}))).await;
    assert_eq!(again.code, 200, "{}", again.body);
    assert_eq!(again.body["spec"], made.body["spec"]);
    let only_first = service(&json!({"clusterIP": made.body["spec"]["clusterIP"]}));
    let again = client.put(&path, &only_first).await;
    assert_eq!(again.body["spec"]["clusterIPs"], made.body["spec"]["clusterIPs"]);
}

#[tokio::test(start_paused = true)]
async fn an_address_of_ipv6_is_one_services_alone_and_comes_back_svc_1() {
    let client = Client::with(dual()).await;
    let named = |name: &str| {
        let mut service =
            service(&json!({"ipFamilyPolicy": "RequireDualStack", "clusterIP": "fd00:10:96::99"}));
        service["metadata"]["name"] = name.into();
        service
    };
    let make = async |name: &str| client.post(SERVICES, &named(name)).await;
    assert_eq!(make("a").await.code, 201);
    let twice = make("b").await;
    assert_eq!(
        twice.message(),
        "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"fd00:10:96::99\"]: failed to allocate IP \
         fd00:10:96::99: provided IP is already allocated"
    );
    assert_eq!(client.delete(&format!("{SERVICES}/a"), &json!({})).await.code, 200);
    assert_eq!(make("b").await.code, 201);
    // A service that drops its second family releases the address.
    let second = client.get(&format!("{SERVICES}/b")).await.body["spec"]["clusterIPs"][1].clone();
    let taken = json!({"clusterIP": second});
    assert_eq!(client.post(SERVICES, &service(&taken)).await.code, 422);
    let single = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    assert_eq!(client.patch(&format!("{SERVICES}/b"), MERGE, &single).await.code, 200);
    assert_eq!(client.post(SERVICES, &service(&taken)).await.code, 201);
    // A dry run allocates nothing.
    let api = client.server.api();
    api.delete(Kind::Service, &Key::new("default", "b"), &DeleteOptions::default()).unwrap();
    assert_eq!(client.post(&format!("{SERVICES}?dryRun=All"), &named("c")).await.code, 201);
    assert_eq!(make("c").await.code, 201);
}

/// SAFE-7: services keep their addresses over a restart too; a cluster that loses a family revokes none.
#[tokio::test(start_paused = true)]
async fn addresses_of_both_families_stay_after_a_restart_svc_1() {
    let store = Store::ephemeral();
    let start = |config: ApiConfig| {
        let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
        let api = Api::new(store.clone(), clock, config);
        let stopping = CancellationToken::new();
        Client { server: Server::new(api, Credentials::new(TOKEN), stopping, ServerConfig::default()) }
    };
    let client = start(dual());
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await;
    let made = client.post(SERVICES, &service(&json!({"ipFamilyPolicy": "PreferDualStack"}))).await;
    let mut other = service(&json!({"clusterIP": made.body["spec"]["clusterIPs"][1]}));
    other["metadata"]["name"] = "other".into();
    for config in [dual(), single()] {
        let client = start(config);
        assert_eq!(client.post(SERVICES, &other).await.code, 422);
        let change = json!({"metadata": {"labels": {"a": "b"}}});
        let changed = client.patch(&format!("{SERVICES}/web"), MERGE, &change).await;
        assert_eq!((changed.code, &changed.body["spec"]), (200, &made.body["spec"]), "{}", changed.body);
    }
}
