//! A cluster domain other than `cluster.local` (`clusterDomain` of the config file).

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::{Cluster, idle, needs, running, users, wait_for, web};
use crate::instance::DataDir;

const SERVICES: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 8080, targetPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: sub}
spec: {clusterIP: None, selector: {app: none}}
---
";

fn claims(token: &str) -> Value {
    let payload = token.trim().split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

fn config(domain: &str) -> String {
    format!("network: {{mode: fabric}}\nclusterDomain: {domain}\n")
}

#[test]
fn another_cluster_domain_is_the_one_of_names_certificates_and_tokens_net_3() {
    needs!(Kubectl);
    let Some(user) = users().into_iter().next() else { return };
    let mut cluster = Cluster::start_with(DataDir::for_everyone(), user, &config("corp.test"));
    let named = running("named", "node-2", "[sleep, '100000']")
        .replace("spec:\n", "spec:\n  hostname: own\n  subdomain: sub\n");
    cluster.apply(&[&web("web", "node-1", ""), &idle("asker", "node-2"), &named, SERVICES].concat());
    for pod in ["web", "asker", "named"] {
        cluster.ready(pod);
    }
    let conf = cluster.shell("asker", "cat /etc/resolv.conf");
    assert!(conf.contains("search default.svc.corp.test svc.corp.test corp.test"), "{conf}");
    for name in ["web", "web.default.svc.corp.test"] {
        let get = format!("curl -s -m 5 -o /dev/null -w '%{{http_code}}' http://{name}:8080/");
        wait_for(name, || (cluster.shell("asker", &get) == "200").then_some(()));
    }
    assert_eq!(cluster.shell("named", "hostname -f"), "own.sub.default.svc.corp.test");
    let ca = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
    let health = format!("curl -s --cacert {ca} https://kubernetes.default.svc.corp.test/healthz");
    assert_eq!(cluster.shell("asker", &health), "ok");
    let issuer = "https://kubernetes.default.svc.corp.test";
    let token = cluster.instance.kubectl(&["create", "token", "default"]);
    assert_eq!(claims(&token)["iss"], issuer);
    assert_eq!(claims(&token)["aud"], serde_json::json!([issuer]));
    let openid = cluster.instance.kubectl(&["get", "--raw", "/.well-known/openid-configuration"]);
    assert_eq!(serde_json::from_str::<Value>(&openid).unwrap()["issuer"], issuer);
    let mut why = Command::new(env!("CARGO_BIN_EXE_podium"));
    why.args(["why-not-connected", "asker", "web"]).arg("--data-dir").arg(cluster.home.data_dir());
    let report = String::from_utf8_lossy(&why.output().unwrap().stdout).into_owned();
    assert!(report.contains("web is web.default.svc.corp.test"), "{report}");

    // Tokens from before the change of the domain stay valid.
    let Cluster { instance, home, .. } = cluster;
    instance.stop();
    cluster = Cluster::start_with(home, user, &config("cluster.local"));
    let whoami = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", "--token", token.trim()];
    // kubectl would prefer a client certificate or token of the kubeconfig.
    let kubeconfig = cluster.home.path("anonymous");
    let text = std::fs::read_to_string(cluster.instance.kubeconfig()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("token:")).collect();
    std::fs::write(&kubeconfig, lines.join("\n")).unwrap();
    let mut kubectl = Command::new("kubectl");
    let output = kubectl.arg("--kubeconfig").arg(&kubeconfig).args(whoami).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "system:serviceaccount:default:default",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    cluster.instance.stop();
}
