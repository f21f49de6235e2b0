//! Habits from other tools: keys without a meaning, kubectl's and k9s' words, port-forwards from any view, manifests
//! from the disk. All of them get a response (CON-3, CON-16, CON-20).

use k8s_openapi::api::core::v1::{Node, Pod};
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::tabs_tests::{TestConsole, objects, pod};
use super::*;
use console_data::catalogue::Catalogue;
use console_data::message::Data;
use console_data::message::Message;
use console_data::resource::Kind;
use console_data::store::{Change, Delta, Object};
use console_screens::contexts::ContextsData;
use console_screens::files::{Entry, FilesData, Listing, Purpose};
use console_toolkit::theme::depth::Depth;

fn shows(stage: &mut TestConsole, expected: &[&str]) {
    let screen = stage.screen();
    let flat = screen.split(['│', '\n']).map(str::trim).collect::<Vec<_>>().join(" ");
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    for want in expected {
        assert!(flat.contains(want), "{want:?} is not in\n{screen}");
    }
}

/// A console with a Deployment, a ready and an unready pod, and a Service that selects them.
fn shop() -> TestConsole {
    let mut stage = TestConsole::new(120, 30);
    let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}]);
    let web = json!({"metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": []}}}});
    let set = json!({"metadata": {"name": "web-1", "namespace": "default", "uid": "web-1", "ownerReferences": owner("Deployment", "web")},
        "spec": {"selector": {}}});
    let of_web = |name: &str, ready: &str| {
        let mut pod = pod("default", name);
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "web-1");
        pod["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 8080}]);
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
        pod
    };
    let service = |name: &str, selector: Value| {
        json!({"metadata": {"name": name, "namespace": "default", "uid": format!("service-{name}")},
            "spec": {"selector": selector, "ports": [{"name": "www", "port": 80, "targetPort": "http"}]}})
    };
    stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects([web]))]));
    stage.feed(Delta::of::<ReplicaSet>(vec![Change::Reset(objects([set]))]));
    let pods = [of_web("web-1-a", "False"), of_web("web-1-b", "True")];
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
    let services = [service("web", json!({"app": "web"})), service("bare", json!({"app": "absent"}))];
    stage.feed(Delta::of::<Service>(vec![Change::Reset(objects(services))]));
    stage
}

#[test]
fn a_key_that_means_nothing_says_so_and_where_it_does_con_3() {
    let mut stage = shop();
    stage.press("p z");
    // The name is the one in footer and help.
    shows(
        &mut stage,
        &["z does nothing here (list its replica sets in \"Deployments\"); <?> lists the keys"],
    );
    // The next key removes the message; another key without a meaning replaces it.
    stage.press("j");
    assert!(!stage.screen().contains("does nothing"), "{}", stage.screen());
    stage.press("z %");
    assert_eq!(stage.screen().matches("does nothing").count(), 1, "{}", stage.screen());
    stage.press("~ d x");
    shows(&mut stage, &["x does nothing here (stop in \"Port-forwards\"", "<?> lists the keys"]);
    stage.press("~ %");
    shows(&mut stage, &["% does nothing here; <?> lists the keys"]);
    // Keys with a meaning show no such message.
    let mut stage = shop();
    stage.press("p j k g G space j space");
    assert!(!stage.screen().contains("does nothing"), "{}", stage.screen());
}

#[test]
fn sorting_without_a_picked_column_is_refused_con_3() {
    let mut stage = shop();
    stage.press("p O");
    shows(&mut stage, &["no column is selected: <shift-←> and <shift-→> select one", "NAME ↑"]);
    // The rows are already sorted by name.
    stage.press("shift-right O");
    shows(&mut stage, &["NAME ↓"]);
    stage.press("shift-right shift-right O");
    assert!(!stage.screen().contains("NAME ↓"), "{}", stage.screen());
}

#[test]
fn the_sort_order_of_a_kind_survives_reopening_its_table_con_3() {
    let mut stage = shop();
    stage.press("p shift-right shift-right shift-right O O");
    let sorted = |screen: &str| {
        let head = screen.lines().find(|line| line.contains("NAME")).expect("a heading").to_owned();
        let arrow = head.find(['↑', '↓']).expect("an arrow");
        let column = head[..arrow].split_whitespace().last().expect("a column").to_owned();
        format!("{column} {}", head[arrow..].chars().next().unwrap_or_default())
    };
    let pods = sorted(&stage.screen());
    assert!(pods.ends_with('↓') && !pods.starts_with("NAME"), "{pods}");
    // Each kind has its own sort order, regardless of the path to it.
    for way in [": \"deploy\" enter", "~ d"] {
        stage.press(way);
        assert_eq!(sorted(&stage.screen()), "NAME ↑", "{way}");
    }
    for way in [": \"pods\" enter", "~ p", "~ d enter"] {
        stage.press(way);
        let screen = stage.screen();
        if screen.contains(" Pods ") {
            assert_eq!(sorted(&screen), pods, "{way}");
        }
    }
    // Sorting by name is remembered, too.
    stage.press(": \"pods\" enter N N : \"svc\" enter : \"pods\" enter");
    assert_eq!(sorted(&stage.screen()), "NAME ↓");
}

#[test]
fn kubectls_and_k9s_words_mean_the_same_or_say_what_does_con_3() {
    for (typed, expected) in [
        ("get_pods", "Pods all 2"),
        ("kubectl_get_pods_-n_default", "Pods default 2"),
        ("top", "Pods all 2"),
        ("pu", "Overview"),
        ("?", "Help"),
        ("popeye", "ctrl-z in a table shows unhealthy rows only"),
        ("helm", ":secrets -l owner=helm"),
        ("describe_deploy_web", "describe · Deployment default/web"),
        ("describe_pod/web-1-a", "describe · Pod default/web-1-a"),
        ("yaml_pods_default/web-1-b", "web-1-b"),
        ("describe_pod_absent", "no pod \"absent\""),
        ("describe_wobble_web", "no kind \"wobble\""),
        ("delete_pod_web-1-a", "Delete Pod default/web-1-a"),
        ("get_pods_-n_shop", "Pods shop 0"),
        ("kubectl_-n_default_get_pods_-w", "Pods default 2"),
        ("kubectl_get_all", "Workloads all"),
        ("describe_pod_web-1-a_-n_default", "describe · Pod default/web-1-a"),
        ("kubectl_-n_shop_describe_pod_web-1-a", "no pod \"web-1-a\" in shop"),
        ("kubectl_delete_pod_web-1-a_--namespace=default", "Delete Pod default/web-1-a"),
    ] {
        let mut stage = shop();
        let jobs = stage.press(&format!(": \"{typed}\" enter"));
        assert!(!jobs.iter().any(|job| matches!(job, Job::Act(_))), "{typed}");
        shows(&mut stage, &[expected]);
    }
}

/// A command on objects takes `KIND/NAME` as kubectl does; an object named by `NAMESPACE/NAME` is found, too.
#[test]
fn commands_on_objects_take_a_kind_and_a_name_con_3() {
    for (typed, expected) in [
        ("logs_deploy/web", "logs · default/web ·"),
        ("logs_deploy_web", "logs · default/web ·"),
        ("kubectl_logs_deploy/web_-n_default", "logs · default/web ·"),
        ("logs_svc/web", "logs · default/web ·"),
        ("logs_default/web-1-a", "logs · default/web-1-a"),
        ("logs_pods/default/web-1-a", "logs · default/web-1-a"),
        ("scale_deploy/web_4", "Scale Deployment default/web"),
        ("scale_deploy_web_4", "Scale Deployment default/web"),
        ("scale_deploy/web_--replicas=4", "Scale Deployment default/web"),
        ("scale_--replicas=4_deploy/web", "Scale Deployment default/web"),
        ("scale_web_4", "Scale Deployment default/web"),
        ("scale_web_--replicas_4", "Scale Deployment default/web"),
        ("scale_deploy/web", "Scale Deployment default/web"),
        ("rollout_deploy/web", "web · rollout"),
        ("rollout_status_deploy/web", "web · rollout"),
        ("rollout_undo_deploy/web", "web · rollout"),
        ("rollout_restart_deploy/web", "Restart Deployment default/web"),
        ("restart_deploy/web", "Restart Deployment default/web"),
        ("logs_deploy/absent", "no deployment \"absent\""),
        ("logs_node/web", "logs does not work on nodes"),
        ("rollout_pods/web-1-a", "rollout does not work on pods"),
        ("logs_deploy_web_main_more", "logs: unexpected \"more\" after the name"),
        ("logs_-n_default", "logs: the name is required"),
        ("describe_-n_default", "describe: the kind and the name are required"),
        ("scale_deploy/web_four", "invalid number of replicas \"four\""),
    ] {
        let mut stage = shop();
        let jobs = stage.press(&format!(": \"{typed}\" enter"));
        assert!(!jobs.iter().any(|job| matches!(job, Job::Act(_))), "{typed}");
        shows(&mut stage, &[expected]);
    }
    // A namespace with the name of a kind.
    let mut stage = shop();
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([pod("deploy", "web-1-c")]))]));
    stage.press(": \"logs_deploy/web-1-c\" enter");
    shows(&mut stage, &["logs · deploy/web-1-c"]);
}

#[test]
fn logs_take_the_options_of_kubectl_con_10() {
    for (typed, expected) in [
        ("logs_-f_web-1-a_-c_main", "logs · default/web-1-a · main · last"),
        ("logs_-f=true_web-1-a", "logs · default/web-1-a · main · last"),
        ("logs_web-1-a_-p", "the previous run"),
        ("logs_web-1-a_-p=true", "the previous run"),
        ("logs_web-1-a_-p=false", "logs · default/web-1-a · main · last"),
        ("logs_web-1-a_--all-containers_--tail=20", "default/web-1-a · all containers · last 20"),
        ("logs_web-1-a_--tail_-1", "from the start"),
        ("logs_web-1-a_--since=90s", "since 90s"),
        ("logs_web-1-a_--since=0s", "logs · default/web-1-a · main · last"),
        ("kubectl_logs_-f_--since_1h_deploy/web_-cmain", "default/web · all pods · main · since 1h"),
        ("logs_-l_app=web_-n_default", "logs · default/app=web · all pods"),
        ("logs_-l_app=web", "the namespace is required: -n NAMESPACE"),
        ("logs_web-1-a_main", "logs · default/web-1-a · main · last"),
        ("logs_web-1-a_absent", "the pod has no container \"absent\"; it has main"),
        ("kubectl_logs_-f_deploy/web_main", "default/web · all pods · main · last"),
        ("logs_deploy_web_main", "default/web · all pods · main · last"),
        ("logs_web-1-a_main_more", "logs: unexpected \"more\" after the name"),
        ("logs_web-1-a_main_-c_main", "main: a container and -c or --all-containers cannot be combined"),
        ("logs_web-1-a_-l_app=web_-n_default", "web-1-a: a name and labels cannot be combined"),
        ("logs_web-1-a_-c_absent", "the pod has no container \"absent\"; it has main"),
        ("logs_web-1-a_--since=soon", "--since: invalid duration \"soon\""),
        ("logs_web-1-a_-c", "-c: the value is required"),
        ("logs_web-1-a_-x", "unknown option -x"),
    ] {
        let mut stage = shop();
        stage.press(&format!(": \"{typed}\" enter"));
        shows(&mut stage, &[expected]);
    }
}

/// The server finds objects of kinds that the console does not watch by their names.
#[test]
fn objects_of_kinds_without_a_watch_are_named_in_commands_con_3() {
    for (typed, expected) in [
        ("logs_sts/db_-n_default", "logs · default/db · all pods"),
        ("logs_statefulset_default/db", "logs · default/db · all pods"),
        ("logs_sts/db", "db: the namespace is required"),
        ("scale_sts/db_3_-n_default", "Scale StatefulSet default/db"),
        ("kubectl_-n_default_rollout_restart_sts/db", "Restart StatefulSet default/db"),
        ("set-image_sts/db_-n_default", "set-image works in their table: :statefulsets shows it"),
    ] {
        let mut stage = shop();
        let mut kinds = builtin_kinds::kinds();
        kinds.push(Kind::of_type::<StatefulSet>());
        stage.model.update(Message::Catalogue(Catalogue::of(kinds)), stage.now);
        let jobs = stage.press(&format!(": \"{typed}\" enter"));
        assert!(!jobs.iter().any(|job| matches!(job, Job::Act(_))), "{typed}");
        shows(&mut stage, &[expected]);
    }
}

/// A word after the kind is the name of an object for kubectl, and a namespace for k9s.
#[test]
fn kubectl_get_selects_the_object_of_the_name_con_3() {
    for (typed, expected) in [
        ("kubectl_get_pods_web-1-b", "▸ default web-1-b"),
        ("get_pod_web-1-b", "▸ default web-1-b"),
        ("get_po/web-1-b", "▸ default web-1-b"),
        ("get_pods_web-1-b_-n_default", "▸ web-1-b"),
        ("get_pods_-ndefault_web-1-b", "▸ web-1-b"),
        ("kubectl_-n_default_get_pods_web-1-b", "▸ web-1-b"),
        ("get_ns_shop", "▸ shop"),
        ("get_pods_absent", "no pod \"absent\" in this list"),
        ("get_pods_default", "no pod \"default\" in this list"),
        ("get_pods_web-1-b_-n_absent", "no namespace \"absent\""),
        ("get_pods_web-1-a_web-1-b", "web-1-a: unexpected \"web-1-b\" after the name"),
        ("get_pods_web-1-a_-l_app=web", "web-1-a: a name and a filter cannot be combined"),
        ("pods_default", "Pods default 2"),
    ] {
        let mut stage = shop();
        stage.press(&format!(": \"{typed}\" enter"));
        shows(&mut stage, &[expected]);
    }
    // Of the other rows, none is hidden.
    let mut stage = shop();
    stage.press(": \"get_pods_web-1-b\" enter");
    shows(&mut stage, &["Pods all 2", "web-1-a"]);
}

/// The name is awaited with the list, unless the user moves the cursor before.
#[test]
fn kubectl_get_selects_the_object_when_its_list_arrives_con_3() {
    for (keys, expected) in [("", "▸ default web-1-b"), ("k", "▸ default web-1-a")] {
        let mut stage = TestConsole::without_lists(120, 30, Depth::True);
        stage.press(": \"get_pods_web-1-b\" enter");
        assert!(!stage.screen().contains("no pod"), "{}", stage.screen());
        if !keys.is_empty() {
            stage.press(keys);
        }
        let pods = ["web-1-a", "web-1-b"].map(|name| pod("default", name));
        stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
        shows(&mut stage, &[expected]);
    }
}

#[test]
fn kubectl_get_completes_kinds_and_names_con_3() {
    for (typed, suggested, enter) in [
        ("get_dep", "get deployments", "Deployments all 1"),
        ("kubectl_get_po", "kubectl get pods", "Pods all 2"),
        ("get_pods_web-1", "get pods web-1-b", "no pod \"web-1\" in this list"),
        ("get_pods_", "get pods web-1-a", "Pods all 2"),
    ] {
        let mut stage = shop();
        stage.press(&format!(": \"{typed}\""));
        shows(&mut stage, &[suggested]);
        stage.press("enter");
        shows(&mut stage, &[enter]);
    }
    let mut stage = shop();
    stage.press(": \"get_ns_s\" tab enter");
    shows(&mut stage, &["▸ shop"]);
}

#[test]
fn commands_on_objects_complete_names_con_3() {
    for (typed, completed) in [
        ("logs_we", "logs web"),
        ("logs_deploy/we", "logs deploy/web"),
        ("logs_deploy_we", "logs deploy web"),
        ("describe_dep", "describe deployments"),
        ("describe_deploy_we", "describe deploy web"),
        ("scale_we", "scale web"),
        ("delete_po_web-1-b", "delete po web-1-b"),
        ("delete_deploy/w", "delete deploy/web"),
        ("drain_nod", "drain node-1"),
        ("kubectl_", "kubectl get"),
        ("kubectl_desc", "kubectl describe"),
        ("kubectl_logs_we", "kubectl logs web"),
    ] {
        let mut stage = shop();
        let node = json!({"metadata": {"name": "node-1", "uid": "node-1"}});
        stage.feed(Delta::of::<Node>(vec![Change::Reset(objects([node]))]));
        stage.press(&format!(": \"{typed}\" tab"));
        assert_eq!(
            stage.model.prompt.as_ref().map(|prompt| prompt.text.as_str()),
            Some(completed),
            "{typed}"
        );
    }
    // Enter completes no name for a command that changes the cluster; after a kind, a namespace is expected.
    let mut stage = shop();
    stage.press(": \"scale_we_4\" enter");
    shows(&mut stage, &["no deployment or replicaset \"we\""]);
    stage.press("esc : \"delete_deploy_we\" enter");
    shows(&mut stage, &["no deployment \"we\""]);
    stage.press("esc : \"deploy_we\"");
    assert!(stage.model.prompt.as_ref().is_some_and(|prompt| prompt.suggestions.is_empty()));
}

#[test]
fn command_errors_are_shown_in_full_at_every_width_con_20() {
    for width in [45, 80, 200] {
        let mut stage = shop();
        stage.resize(width, 24);
        stage.press(": \"policy\" enter");
        shows(&mut stage, &["use :can, :roles", "✖"]);
        let screen = stage.screen();
        assert!(screen.contains(":clusterrolebindings"), "the end of it is there at {width}\n{screen}");
        // A dialog's hints are never cut in the middle.
        stage.press("esc p ctrl-d");
        let last = stage.screen().lines().last().unwrap_or_default().trim_end().to_owned();
        assert_eq!(last.matches('<').count(), last.matches('>').count(), "{last}");
    }
}

#[test]
fn the_name_of_a_namespace_is_copied_and_what_is_forwarded_listed_con_3() {
    let mut stage = shop();
    let jobs = stage.press("p n");
    assert!(jobs.iter().any(|job| matches!(job, Job::Copy(text) if text == "default")), "{jobs:?}");
    stage.press("f");
    shows(&mut stage, &["Port-forwards 0", "no port is forwarded"]);
    stage.press("~ n n");
    shows(&mut stage, &["nothing is selected"]);
}

#[test]
fn a_service_and_a_deployment_forward_to_a_pod_that_is_ready_con_16() {
    let mut stage = shop();
    stage.press("d F");
    shows(
        &mut stage,
        &[
            "Forward a port of Deployment default/web",
            "Through Pod web-1-b, which is ready.",
            "8080▏ 8080 http",
        ],
    );
    let jobs = stage.press("enter");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    stage.press("f");
    shows(&mut stage, &["default/web-1-b:8080"]);
    stage.press("~ s G F");
    shows(&mut stage, &["Forward a port of Service default/web", "8080▏ 8080 for the service's 80 www"]);
    stage.press("esc g F");
    shows(&mut stage, &["Service default/bare has no running pod to forward to"]);
}

#[test]
fn the_view_of_readiness_problems_opens_the_object_as_yaml_con_3() {
    let mut stage = shop();
    stage.press(": \"deploy\" enter W");
    shows(&mut stage, &["why not ready · Deployment default/web", "<y>yaml"]);
    stage.press("y");
    shows(&mut stage, &["Deployment default/web yaml"]);
}

#[test]
fn y_confirms_every_dialog_without_a_text_field_con_6() {
    let mut stage = shop();
    stage.press("p ctrl-d");
    shows(&mut stage, &["Delete Pod default/web-1-a", "<y>delete <n>cancel"]);
    let jobs = stage.press("y");
    assert!(jobs.iter().any(|job| matches!(job, Job::Act(_))), "{jobs:?}");
    // Letters in a text field are not an answer.
    let mut stage = shop();
    stage.press("p L");
    let jobs = stage.press("tab tab y");
    assert!(!jobs.iter().any(|job| matches!(job, Job::Act(_))), "{jobs:?}");
}

#[test]
fn a_table_without_a_row_says_why_and_what_leads_to_some_con_18() {
    let mut stage = shop();
    stage.press("p / \"app=web\" enter");
    shows(&mut stage, &["none of 2 match; <esc> clears the filter; -l app=web filters by label"]);
    let external = json!({"metadata": {"name": "external", "namespace": "default", "uid": "e"}, "spec": {}});
    stage.feed(Delta::of::<Service>(vec![Change::Reset(objects([external]))]));
    stage.press("~ s enter");
    shows(&mut stage, &["no pods: Service default/external has no selector, so it matches no pods"]);
}

fn send(stage: &mut TestConsole, data: FilesData) -> Vec<Job> {
    let (id, now) = (stage.model.top().0, stage.now);
    stage.model.update(Message::Data(id, Data::new(data)), now)
}

fn listing() -> Listing {
    let entry = |name: &str, is_dir, size| Entry { name: name.to_owned(), is_dir, size };
    Listing {
        dir: PathBuf::from("/home/me/manifests"),
        entries: vec![entry("..", true, 0), entry("old", true, 0), entry("web.yaml", false, 2_048)],
        cut: false,
        at: None,
    }
}

fn documents(text: &str) -> Vec<manifest::Document> {
    manifest::parse(text, "web.yaml").into_iter().map(|one| one.unwrap()).collect()
}

#[test]
fn a_directory_is_browsed_and_applying_a_manifest_is_confirmed_con_3() {
    let mut stage = shop();
    let jobs = stage.press(": \"dir_/home/me/manifests\" enter");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    shows(&mut stage, &["Manifests /home/me/manifests", "reading…"]);
    send(&mut stage, FilesData::Listed(Ok(listing())));
    shows(&mut stage, &["▸ ../", "old/", "web.yaml 2 KiB", "<a>apply", "<ctrl-d>delete"]);
    let jobs = stage.press("a");
    assert!(!jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    shows(&mut stage, &["that is the parent directory: enter opens it"]);
    stage.press("/ \"web\" enter");
    shows(&mut stage, &["▸ web.yaml"]);
    let jobs = stage.press("enter");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "it is read: {jobs:?}");
    // An invalid manifest is reported with its position, and no request is sent.
    let wrong = documents("apiVersion: x.io/v1\nkind: Wobble\nmetadata: {name: w}\n");
    let path = PathBuf::from("/home/me/manifests/web.yaml");
    let jobs = send(&mut stage, FilesData::Read(path.clone(), Purpose::Apply, wrong, Vec::new()));
    assert!(!jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    shows(&mut stage, &["web.yaml:2:1: kind: this server has no Wobble of x.io/v1"]);
    let good = documents("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n");
    let jobs = send(&mut stage, FilesData::Read(path, Purpose::Apply, good, Vec::new()));
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "the server is asked: {jobs:?}");
    // After a directory fails to open, the view is unchanged.
    send(&mut stage, FilesData::Listed(Err("/root: Permission denied".to_owned())));
    shows(&mut stage, &["/root: Permission denied", "▸ web.yaml"]);
}

#[test]
fn a_manifest_is_read_before_it_is_applied_con_3() {
    let mut stage = shop();
    stage.press(": \"dir\" enter");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("web.yaml");
    std::fs::write(&path, "kind: Deployment\n").expect("written");
    send(&mut stage, FilesData::Listed(Ok(Listing { dir: dir.path().to_owned(), ..listing() })));
    stage.press("y");
    shows(&mut stage, &["that is a directory: enter opens it"]);
    let jobs = stage.press("G y");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    // A file that was deleted meanwhile is reported; an existing one is shown.
    send(&mut stage, FilesData::Look(Err(format!("{}: No such file", path.display()))));
    shows(&mut stage, &["web.yaml: No such file", "▸ web.yaml"]);
    send(&mut stage, FilesData::Look(Ok(path)));
    shows(&mut stage, &["▸ web.yaml", "reading…"]);
    assert!(!stage.screen().contains("Manifests"), "{}", stage.screen());
    stage.press("esc");
    shows(&mut stage, &["Manifests"]);
}

#[test]
fn services_are_shown_with_the_pods_that_they_select_con_3() {
    let mut stage = shop();
    let service = |name: &str, selector: Value| json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"selector": selector}});
    let services = [
        service("bare", json!({"app": "absent"})),
        service("one", json!({"app": "web"})),
        service("outside", Value::Null),
        service("two", json!({"app": "web"})),
    ];
    stage.feed(Delta::of::<Service>(vec![Change::Reset(objects(services))]));
    stage.press(": \"xray_services\" enter");
    shows(
        &mut stage,
        &["Service default/bare", "selects no pod", "Service default/outside", "no selector", "├ ", "└ "],
    );
    let screen = stage.screen();
    assert_eq!(screen.matches("Pod web-1-a").count(), 2, "two services select it:\n{screen}");
    // The cursor passes an object that is in two places.
    for _ in 0..8 {
        stage.press("down");
    }
    let screen = stage.screen();
    let last = screen.lines().rfind(|line| line.contains("Pod web-1-b")).expect("the last line");
    assert!(last.contains('▸'), "{screen}");
    // A kind that owns nothing is not reported as empty.
    stage.press(": \"xray_nodes\" enter");
    shows(&mut stage, &["none of the nodes here owns anything; :nodes lists them"]);
}

#[test]
fn names_on_the_disk_do_not_drive_the_terminal_con_3() {
    let mut stage = shop();
    stage.press(": \"dir\" enter");
    let mut hostile = listing();
    hostile.entries[2].name = "\u{1b}]0;x\u{7}evil\u{202e}.yaml".to_owned();
    send(&mut stage, FilesData::Listed(Ok(hostile)));
    let screen = stage.screen();
    assert!(screen.contains("evil"), "{screen}");
    assert!(!screen.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{screen:?}");
}

#[test]
fn read_only_looks_at_directories_and_applies_nothing_con_3() {
    let mut setup = super::tabs_tests::setup(Depth::True);
    setup.read_only = true;
    let (model, _) = Model::new(setup, "2026-05-01T12:00:00Z".parse().unwrap());
    let mut stage = TestConsole::of(model, 120, 30);
    stage.press(": \"apply_web.yaml\" enter");
    shows(&mut stage, &["read-only: \"apply\" changes the cluster"]);
    stage.press("esc : \"dir\" enter");
    send(&mut stage, FilesData::Listed(Ok(listing())));
    let jobs = stage.press("G enter");
    assert!(!jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    shows(&mut stage, &["read-only: manifests change the cluster"]);
    stage.press("a");
    shows(&mut stage, &["read-only: \"apply\" changes the cluster"]);
}

#[test]
fn k9s_keys_work_on_services_pods_replica_sets_and_nodes_con_3() {
    let mut stage = shop();
    // The logs of all pods that a service selects: their labels are requested.
    let jobs = stage.press(": \"services\" enter G l");
    shows(&mut stage, &["web · logs"]);
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    // A pod's image can be set, with an undo and a warning about the pod's owner.
    let mut stage = shop();
    stage.press("p i");
    shows(&mut stage, &["Set image of Pod default/web-1-a", "the next pod has the old image"]);
    let jobs = stage.press("\"nginx:2\" enter");
    let Some(Job::Act(action)) = jobs.iter().find(|job| matches!(job, Job::Act(_))) else {
        panic!("{jobs:?}")
    };
    assert!(action.kubectl.starts_with("kubectl set image pod/web-1-a -n default "), "{}", action.kubectl);
    assert!(action.kubectl.ends_with("=nginx:2"), "{}", action.kubectl);
    let console_data::action::Mutation::Patch { body, .. } = &action.mutation else { panic!("{action:?}") };
    assert_eq!(body["spec"]["containers"][0]["image"], "nginx:2");
    assert!(action.inverse.is_some());
    // A rollback from a replica set goes through its Deployment.
    let mut stage = shop();
    stage.press(": \"rs\" enter ctrl-l");
    shows(&mut stage, &["web · rollout"]);
}

/// CON-5: a rollback from a replica set selects that set's revision.
#[test]
fn a_rollback_from_a_replica_set_is_at_its_revision_con_5() {
    let template = |image: &str| json!({"spec": {"containers": [{"name": "c", "image": image}]}});
    let set = |number: u32| {
        json!({"metadata": {"name": format!("web-{number}"), "namespace": "default", "uid": format!("web-{number}"),
                "annotations": {"deployment.kubernetes.io/revision": number.to_string()},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web",
                    "controller": true}]},
            "spec": {"replicas": 0, "selector": {}, "template": template(&format!("app:{number}"))}})
    };
    let mut stage = TestConsole::new(120, 40);
    let web = json!({"metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {"replicas": 0, "selector": {}, "template": template("app:4")}});
    stage.feed(Delta::of::<Deployment>(vec![Change::Reset(objects([web]))]));
    stage.feed(Delta::of::<ReplicaSet>(vec![Change::Reset(objects((1..=4).map(set)))]));
    for number in [1, 2, 3] {
        stage.press(&format!("~ : \"rs\" enter / \"web-{number}\" enter ctrl-l u"));
        shows(&mut stage, &["Undo web", &format!("Back to revision {number}: ")]);
        stage.press("esc");
    }
    // The current revision is not a rollback target, and another one can be selected as usual.
    stage.press("~ : \"rs\" enter / \"web-4\" enter ctrl-l u");
    shows(&mut stage, &["this is the current revision; pick another one"]);
    stage.press("j u");
    shows(&mut stage, &["Back to revision 3: "]);
    stage.press("esc");
    // From the Deployment the newest earlier revision is selected.
    stage.press("~ d ctrl-l u");
    shows(&mut stage, &["Back to revision 3: "]);
}

/// CON-3: the users of an object are found among many thousand pods without unpacking any.
#[test]
fn users_of_an_object_are_found_without_unpacking_pods_con_3_con_1() {
    let mut stage = TestConsole::new(120, 30);
    let maps = Kind::new(console_data::resource::KindFacts {
        resource: ResourceKey { group: "".into(), version: "v1".into(), plural: "configmaps".into() },
        kind: "ConfigMap".to_owned(),
        singular: "configmap".to_owned(),
        namespaced: true,
        short_names: vec!["cm".to_owned()],
        subresources: BTreeMap::new(),
        verbs: ["list", "watch", "get"].map(String::from).into(),
    });
    let kinds = console_data::builtin_kinds::kinds().into_iter().chain([maps.clone()]);
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.collect())), stage.now);
    let mut keeper = console_data::store::ObjectPacker::default();
    let many = (0..3_000).map(|n| {
        let mut pod = pod("default", &format!("web-{n}"));
        let map = if n % 1_000 == 7 { "mine" } else { "theirs" };
        pod["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": map}}]);
        pod
    });
    let many = objects::<Pod>(many).into_iter().map(|pod| keeper.keep(pod)).collect();
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(many)]));
    stage.press(": \"cm\" enter");
    let row = json!({"cells": ["mine"],
        "object": {"metadata": {"name": "mine", "namespace": "default", "uid": "mine"}}});
    let columns = vec![serde_json::from_value(json!({"name": "Name"})).unwrap()];
    stage.feed(Delta::of_table(maps.resource.clone(), Some(columns), vec![Change::Reset(objects([row]))]));
    stage.press("u");
    stage.work();
    shows(&mut stage, &["Pods of mine 3 ", "web-7", "web-1007", "web-2007"]);
    let unpacked = stage.model.shared.cluster.stores.pods().entries().filter(|pod| !pod.is_packed()).count();
    assert!(unpacked <= 1, "{unpacked}: no more than the one under the cursor");
}

/// CON-3: a node shell asks before it creates its pod; hollow nodes, read-only mode and a server's refusal are
/// reported.
#[test]
fn a_shell_on_a_node_asks_first_and_says_where_there_is_none_con_3() {
    let node = |name: &str, runtime: &str, ready: &str| {
        json!({"metadata": {"name": name, "uid": name}, "status": {"conditions": [{"type": "Ready", "status": ready}],
            "nodeInfo": {"architecture": "", "bootID": "", "containerRuntimeVersion": runtime, "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "linux",
            "osImage": "", "systemUUID": ""}}})
    };
    let nodes = || {
        let nodes =
            [node("a", "podium://1", "True"), node("b", "hollow://1", "True"), node("c", "x://1", "False")];
        Delta::of::<Node>(vec![Change::Reset(objects(nodes))])
    };
    let mut stage = shop();
    stage.feed(nodes());
    let jobs = stage.press("~ n s");
    assert!(!jobs.iter().any(|job| matches!(job, Job::Act(_))), "{jobs:?}");
    shows(
        &mut stage,
        &[
            "Shell on Node a", "image busybox", "namespace default", "privileged",
            "processes of Podium's machine",
        ],
    );
    // Cancelling starts nothing, and returns to the same view.
    stage.press("esc");
    shows(&mut stage, &["Nodes 3"]);
    // An invalid namespace is refused in the dialog.
    stage.press("s tab \"../x\" enter");
    shows(&mut stage, &["invalid namespace name \"../x\""]);
    stage.press("esc j s");
    shows(&mut stage, &["b is hollow: it runs no processes"]);
    stage.press("j s");
    shows(&mut stage, &["Shell on Node c", "The node is not Ready"]);
    // Every field is filled in, and Enter opens the session.
    shows(&mut stage, &["<enter>open"]);
    let jobs = stage.press("enter");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(task) if task.slot() == "session")), "{jobs:?}");
    shows(&mut stage, &["shell · c", "creating a pod with image busybox"]);
    let mut stage = shop();
    stage.model.shared.read_only = true;
    stage.feed(nodes());
    stage.press("~ n s");
    assert!(!stage.screen().contains("Shell on"), "{}", stage.screen());
    shows(&mut stage, &["read-only"]);
}

/// CON-3: leftover pods of killed consoles are reported once, and removed on request.
#[test]
fn leftover_shell_pods_are_reported_and_removed_con_3() {
    let left = |name: &str, phase: &str| {
        let mut left = pod("default", name);
        left["metadata"]["labels"] = json!({"podium.dev/node-shell": "another"});
        left["spec"]["nodeName"] = json!("node-9");
        left["status"]["phase"] = json!(phase);
        left
    };
    let mut stage = TestConsole::without_lists(120, 30, console_toolkit::theme::depth::Depth::True);
    // The pages of a long list arrive one by one: pods on the last one are reported as well, without unpacking.
    let mut keeper = console_data::store::ObjectPacker::default();
    let pods = [pod("default", "web"), left("there", "Running"), left("over", "Failed")];
    let pods: Vec<_> = objects::<Pod>(pods).into_iter().map(|pod| keeper.keep(pod)).collect();
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Listed(pods[..1].to_vec())]));
    assert!(!stage.screen().contains("node shell pod"), "{}", stage.screen());
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Listed(pods[1..].to_vec())]));
    stage.feed(Delta::from_packed(ResourceKey::of::<Pod>(), vec![Change::Reset(pods)]));
    let unpacked = stage.model.shared.cluster.stores.pods().entries().filter(|pod| !pod.is_packed()).count();
    assert_eq!(unpacked, 0);
    shows(&mut stage, &["a killed console left a node shell pod behind;"]);
    // It is reported once only.
    stage.now = stage.now.saturating_add(jiff::SignedDuration::from_mins(1)).unwrap();
    let at = stage.now;
    stage.model.toasts.expire(at);
    stage.feed(Delta::of::<Pod>(vec![Change::Applied(objects([left("more", "Failed")]).remove(0))]));
    assert!(!stage.screen().contains("node shell pods"), "{}", stage.screen());
    stage.feed(Delta::of::<Pod>(vec![Change::Deleted(objects([left("more", "Failed")]).remove(0))]));
    stage.press(": \"node-shells\" enter");
    shows(
        &mut stage,
        &[
            "Pod default/over on node-9: ended", "Pod default/there on node-9: exists",
            "may be in use by another console",
        ],
    );
    let deleted = |jobs: &[Job]| {
        let acts = jobs.iter().filter_map(|job| match job {
            Job::Act(action) => Some(action.kubectl.clone()),
            _ => None,
        });
        acts.collect::<Vec<_>>()
    };
    assert_eq!(deleted(&stage.press("y")), ["kubectl delete pod over -n default"]);
    stage.press(": \"node-shells\" enter");
    let both = ["kubectl delete pod over -n default", "kubectl delete pod there -n default"];
    assert_eq!(deleted(&stage.press("tab tab space enter tab enter")), both);
    let mut stage = shop();
    stage.press(": \"node-shells\" enter");
    shows(&mut stage, &["found no node shell pods"]);
}

/// CON-3: a copy asks for everything it needs, shows its progress, and overwrites nothing without confirmation.
#[test]
fn a_copy_asks_which_way_and_where_con_3() {
    use console_screens::transfer::TransferData;
    let mut stage = shop();
    stage.press("p t");
    shows(
        &mut stage,
        &[
            "Copy with Pod default/web-1-a", "direction", "out of the container", "container", "main",
            "path there", "path here",
        ],
    );
    // The only empty field has the focus first.
    shows(&mut stage, &["<enter>next"]);
    stage.press("enter");
    shows(&mut stage, &["▸ path there", "<enter>copy"]);
    stage.press("enter");
    shows(&mut stage, &["path there: enter a path"]);
    stage.press("esc t tab enter \"/\" enter");
    shows(&mut stage, &["/ must name a file or directory below the root"]);
    stage.press("esc t enter \"/var/log/a.log\"");
    let jobs = stage.press("enter");
    let Some(Job::Start(task)) = jobs.iter().find(|job| matches!(job, Job::Start(_))) else {
        panic!("{jobs:?}")
    };
    let id = task.screen;
    shows(
        &mut stage,
        &[
            "◐ copying",
            "main:/var/log/a.log → .",
            "0 B, 0 files",
            "kubectl cp -n default -c main web-1-a:/var/log/a.log .",
        ],
    );
    // It can be cancelled and retried; later results of the cancelled one are ignored.
    let jobs = stage.press("x");
    assert!(jobs.iter().any(|job| matches!(job, Job::Cancel(..))), "{jobs:?}");
    shows(&mut stage, &["✖ the copy was stopped; no part of it is left"]);
    assert!(!stage.screen().contains("<x>stop"), "{}", stage.screen());
    stage.press("x");
    shows(&mut stage, &["nothing is being copied"]);
    let now = stage.now;
    stage.model.update(Message::Data(id, Data::new(TransferData::Going)), now);
    let jobs = stage.press("r");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    // It continues in the background after its view is closed.
    stage.press("esc");
    shows(&mut stage, &["continues in the background"]);
    let mut stage = shop();
    stage.model.shared.read_only = true;
    stage.press("p t");
    shows(&mut stage, &["read-only"]);
}

#[test]
fn an_empty_line_offers_what_is_looked_at_most_and_the_consoles_own_screens_con_3() {
    let mut stage = shop();
    stage.press(":");
    let offered = &stage.model.prompt.as_ref().expect("open").suggestions;
    assert_eq!(offered[..3], ["pods", "deployments", "services"]);
    for screen in ["overview", "xray", "topology", "drills", "journal", "port-forwards"] {
        assert!(offered.iter().any(|word| word == screen), "{screen}: {offered:?}");
    }
    // A server without Podium's snapshots: completion works as before.
    stage.press("\"depl\"");
    assert_eq!(stage.model.prompt.as_ref().expect("open").suggestions[0], "deployments");
}

#[test]
fn the_end_of_a_drill_is_announced_on_every_screen_fault_2() {
    use k8s_openapi::api::core::v1::Event;
    let mut stage = shop();
    stage.press("p");
    let event = |uid: &str, reason: &str, ago: i64| {
        let at = stage.now.saturating_sub(jiff::SignedDuration::from_secs(ago)).unwrap().to_string();
        json!({"metadata": {"name": uid, "namespace": "default", "uid": uid},
            "involvedObject": {"kind": "Scenario", "name": "crash-loop"}, "type": "Normal", "reason": reason,
            "message": "A pod crashes: 88 of 100: well done", "lastTimestamp": at})
    };
    let (old, began, passed) = (
        event("e1", "ScenarioPassed", 600),
        event("e2", "ScenarioBegan", 1),
        event("e3", "ScenarioPassed", 1),
    );
    for (event, is_announced) in [(old, false), (began, false), (passed.clone(), true)] {
        stage.feed(Delta::of::<Event>(vec![Change::Applied(objects([event]).remove(0))]));
        let screen = stage.screen();
        assert_eq!(screen.contains("drill passed: A pod crashes: 88 of 100"), is_announced, "{screen}");
    }
    // It is shown once only.
    stage.press("esc");
    stage.model.toasts = Toasts::default();
    stage.feed(Delta::of::<Event>(vec![Change::Applied(objects([passed]).remove(0))]));
    assert!(!stage.screen().contains("drill passed"), "{}", stage.screen());
}

#[test]
fn snapshots_and_faults_are_made_from_their_tables_safe_8() {
    let kind = |plural: &str, kind: &str| {
        Kind::new(console_data::resource::KindFacts {
            resource: ResourceKey {
                group: "podium.dev".into(),
                version: "v1alpha1".into(),
                plural: plural.to_owned().into(),
            },
            kind: kind.to_owned(),
            singular: kind.to_lowercase(),
            namespaced: false,
            short_names: Vec::new(),
            subresources: BTreeMap::new(),
            verbs: ["create", "delete", "get", "list", "watch"].map(String::from).into(),
        })
    };
    let acts = |jobs: &[Job]| {
        let acts = jobs.iter().filter_map(|job| match job {
            Job::Act(action) => Some(action.kubectl.clone()),
            _ => None,
        });
        acts.collect::<Vec<_>>()
    };
    let mut stage = shop();
    stage.press(": \"snapshots\" enter");
    assert!(stage.screen().contains("does not support cluster snapshots"), "{}", stage.screen());
    let mut kinds = console_data::builtin_kinds::kinds();
    let snapshots = kind("clustersnapshots", "ClusterSnapshot");
    kinds.push(console_data::builtin_kinds::kind::<extension::fault::Fault>());
    kinds.extend([snapshots.clone(), kind("clusterrestores", "ClusterRestore")]);
    stage.model.update(Message::Catalogue(Catalogue::of(kinds)), stage.now);
    stage.press("esc : \"snapshots\" enter");
    let row = json!({"cells": ["before"], "object": {"metadata": {"name": "before", "uid": "b"}}});
    let columns = vec![serde_json::from_value(json!({"name": "Name"})).unwrap()];
    let rows: Vec<Arc<console_data::server_table::TableRow>> = objects([row]);
    stage.feed(Delta::of_table(snapshots.resource.clone(), Some(columns), vec![Change::Reset(rows)]));
    shows(&mut stage, &["╭ Snapshots 1", "▸ Snapshots", "<a>save", "<r>restore", "<f>fork"]);
    // An invalid name is refused where it can be corrected.
    assert!(acts(&stage.press("a \"my_snapshot\" enter")).is_empty());
    shows(&mut stage, &["Save a snapshot of the cluster", "a name has only lower-case letters, digits"]);
    stage.press("esc");
    assert_eq!(acts(&stage.press("a \"now\" enter")), ["podium snapshot save now"]);
    // A restore ends every pod, so its name must be typed.
    stage.press("r");
    assert!(acts(&stage.press("y enter")).is_empty());
    assert_eq!(acts(&stage.press("ctrl-u \"before\" enter")), ["podium snapshot restore before"]);
    // Without the cluster's files on this machine the command is copied, with the reason.
    let copied =
        |job: &Job| matches!(job, Job::Copy(text) if text.starts_with("podium snapshot fork before"));
    assert!(stage.press("f").iter().any(copied));
    shows(&mut stage, &["may be on another machine", "run this command there"]);
    stage.press(": \"faults\" enter a");
    shows(&mut stage, &["Add a fault", "‹ Latency ›", "Delays packets between two sides."]);
    let jobs = stage.press("\"lllllllllll\" enter");
    shows(&mut stage, &["Add fault PowerOff", "its name, or nodes:LABEL=VALUE"]);
    assert!(acts(&jobs).is_empty());
    let jobs = stage.press("\"node-1\" tab \"30s\" enter");
    assert_eq!(acts(&jobs).len(), 1, "{}", stage.screen());
    assert!(acts(&jobs)[0].contains(r#""target":{"node":"node-1"}"#), "{jobs:?}");
    assert!(acts(&jobs)[0].contains(r#""duration":"30s""#), "{jobs:?}");
}

/// Records the requested forks, and creates none.
#[derive(Debug, Default)]
struct RecordingForks(parking_lot::Mutex<Vec<(String, std::path::PathBuf)>>);

impl console_data::forks::Fork for RecordingForks {
    fn fork(
        &self,
        snapshot: String,
        directory: std::path::PathBuf,
    ) -> futures::future::BoxFuture<'static, Result<console_data::forks::ForkedDirectory, String>> {
        let is_full = directory.ends_with("full");
        self.0.lock().push((snapshot, directory));
        Box::pin(async move {
            if is_full {
                Err("full is not empty".to_owned())
            } else {
                Ok(console_data::forks::ForkedDirectory { objects: 1_200 })
            }
        })
    }
}

#[tokio::test]
async fn a_snapshot_is_forked_where_the_files_of_the_cluster_are_safe_8() {
    let forks = Arc::new(RecordingForks::default());
    let mut stage = TestConsole::new(100, 24);
    let known: Arc<dyn console_data::forks::Fork> = forks.clone();
    stage.model.setup.forks = Some(known.clone());
    stage.model.shared.forks = Some(known);
    let kind = |plural: &str, kind: &str| {
        let mut facts = (*super::tabs_tests::widgets(plural)).clone();
        facts.resource.group = "podium.dev".into();
        (facts.kind, facts.namespaced) = (kind.to_owned(), false);
        facts.verbs.insert("create".to_owned());
        console_data::resource::Kind::new(facts)
    };
    let snapshots = kind("clustersnapshots", "ClusterSnapshot");
    let mut kinds = console_data::builtin_kinds::kinds();
    kinds.push(snapshots.clone());
    stage.model.update(Message::Catalogue(Catalogue::of(kinds)), stage.now);
    stage.press(": \"snapshots\" enter");
    let row = json!({"cells": ["before"], "object": {"metadata": {"name": "before", "uid": "b"}}});
    let columns = vec![serde_json::from_value(json!({"name": "Name"})).unwrap()];
    let rows: Vec<Arc<console_data::server_table::TableRow>> = objects([row]);
    stage.feed(Delta::of_table(snapshots.resource.clone(), Some(columns), vec![Change::Reset(rows)]));

    let (sender, mut messages) = tokio::sync::mpsc::channel(16);
    let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, kube::Error>>()
    });
    let mut runner = console_operations::effect::Runner::new(kube::Client::new(silent, "default"), sender);
    for (directory, expected, entry) in [
        ("/copies/it", "✔ /copies/it holds 1 200 objects; podium --data-dir /copies/it starts it", None),
        (
            "/copies/full",
            "✖ fork snapshot before to /copies/full: full is not empty",
            Some("full is not empty"),
        ),
    ] {
        stage.press("f");
        shows(&mut stage, &["Fork before", "~/podium-before"]);
        for job in stage.press(&format!("ctrl-u \"{directory}\" enter")) {
            if let Job::Start(task) = job {
                runner.start(task);
            }
        }
        for _ in 0..if entry.is_none() { 2 } else { 1 } {
            let message = messages.recv().await.expect("the fork tells");
            stage.model.update(message, stage.now);
        }
        shows(&mut stage, &[expected]);
        let outcome = &stage.model.shared.cluster.journal.entries().last().expect("an entry").outcome;
        assert_eq!(outcome.action.kubectl, format!("podium snapshot fork before {directory}"));
        assert_eq!(outcome.error.as_deref(), entry);
    }
    let forked = forks.0.lock().clone();
    assert_eq!(forked[0], ("before".to_owned(), "/copies/it".into()));
    // The files of a joined cluster are not on this machine.
    let away = console_data::resource::ClusterId::joined(1);
    assert!(stage.model.shared.context(stage.now).on(away).is_none_or(|cx| cx.forks.is_none()));
}

/// A word after a kind without namespaces is the name of an object.
#[test]
fn a_kind_of_the_cluster_takes_a_name_con_3() {
    let mut stage = TestConsole::new(100, 24);
    let nodes = ["node-1", "node-10"].map(|name| json!({"metadata": {"name": name, "uid": name}}));
    stage.feed(Delta::of::<Node>(vec![Change::Reset(objects(nodes))]));
    stage.press(": \"nodes_node-1\" enter");
    shows(&mut stage, &["Nodes 1 of 2 /^node-1$", "▸ node-1"]);
    assert_eq!(stage.model.shared.scope, Scope::All);
    stage.press(": \"nodes_node-9\" enter");
    shows(&mut stage, &["no node \"node-9\"; <esc> shows all 2"]);
    stage.press("esc");
    shows(&mut stage, &["Nodes 2"]);
    stage.press(": \"nodes_a_b\" enter");
    shows(&mut stage, &["a: unexpected \"b\" after the name"]);
    stage.press("esc esc : \"describe_node\" enter");
    shows(&mut stage, &["describe node: the name is required: describe KIND NAME"]);
    stage.press("esc : \"describe_web\" enter");
    shows(&mut stage, &["describe web: the kind is required: describe KIND NAME"]);
    stage.press("esc : \"describe_node_gone\" enter");
    shows(&mut stage, &["no node \"gone\""]);
    assert!(!stage.screen().contains("\"gone\" in"), "{}", stage.screen());
    // The snapshots of another server do not exist; Podium's are found by name.
    let snapshots = Kind::new(console_data::resource::KindFacts {
        resource: ResourceKey {
            group: "podium.dev".into(),
            version: "v1alpha1".into(),
            plural: "clustersnapshots".into(),
        },
        kind: "ClusterSnapshot".to_owned(),
        singular: "clustersnapshot".to_owned(),
        namespaced: false,
        short_names: Vec::new(),
        subresources: BTreeMap::new(),
        verbs: ["list", "watch", "get", "create"].map(String::from).into(),
    });
    let resource = snapshots.resource.clone();
    let kinds = console_data::builtin_kinds::kinds().into_iter().chain([snapshots]);
    stage.model.update(Message::Catalogue(Catalogue::of(kinds.collect())), stage.now);
    stage.press("esc : \"snapshots_monday\" enter");
    stage.feed(Delta::of_table(resource.clone(), Some(Vec::new()), vec![Change::Reset(Vec::new())]));
    shows(&mut stage, &["no clustersnapshots; <a> saves one of the whole cluster"]);
    let row = json!({"cells": [], "object": {"metadata": {"name": "sunday", "uid": "s"}}});
    stage.feed(Delta::of_table(resource, Some(Vec::new()), vec![Change::Reset(objects([row]))]));
    shows(&mut stage, &["no clustersnapshot \"monday\"; <esc> shows all 1"]);
}

#[test]
fn a_number_or_a_name_that_means_nothing_says_so_con_3() {
    let mut stage = TestConsole::new(100, 24);
    stage.press("p 9");
    shows(&mut stage, &["no namespace has the number 9; :ns NAME shows one"]);
    stage.press(": \"logs_gone\" enter");
    shows(&mut stage, &["no pod, deployment, replicaset or service \"gone\""]);
}

/// A reason is shown whole, also where it does not fit into a line.
#[test]
fn the_contexts_say_which_kubeconfig_is_missing_con_16() {
    let mut stage = TestConsole::new(80, 24);
    stage.press(": \"ctx\" enter");
    shows(&mut stage, &["started on · in process", "reading the kubeconfig…"]);
    let missing = "no kubeconfig: /home/somebody/with/a/long/name/.kube/config does not exist; set KUBECONFIG to another file";
    let mut list = |all| {
        let (id, now) = (stage.model.top().0, stage.now);
        stage.model.update(Message::Data(id, Data::new(ContextsData(all))), now);
        stage.screen()
    };
    let screen = list(Err(missing.to_owned()));
    let flat = screen.split(['│', '\n']).map(str::trim).collect::<Vec<_>>().join(" ");
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(missing), "{screen}");
    let screen = list(Ok(Vec::new()));
    assert!(screen.contains("the kubeconfig has no contexts"), "{screen}");
}

/// As in k9s, a command replaces the view that it opened before.
#[test]
fn the_same_command_does_not_pile_up_views_con_3() {
    let mut stage = shop();
    for command in [
        "images", "xray", "topology", "dir_/tmp", "can", "can_get_pods", "journal", "drills", "ctx",
        "aliases", "describe_deploy_web",
    ] {
        stage.press("~");
        stage.press(&format!(": \"{command}\" enter"));
        let before = stage.model.screens.len();
        stage.press(&format!(": \"{command}\" enter"));
        assert_eq!(stage.model.screens.len(), before, ":{command}\n{}", stage.screen());
    }
    // Lists start a new stack.
    stage.press("~ p d : \"images\" enter");
    assert_eq!(stage.model.screens.len(), 2);
    stage.press(": \"topology\" enter esc");
    assert_eq!(stage.model.screens.len(), 1);
    // A command about the present view does not.
    stage.press("p : \"can_get\" enter esc");
    assert!(stage.screen().contains("Pods"), "{}", stage.screen());
    // Keys do not pile up views either.
    stage.press("~ p U U ctrl-a ctrl-a");
    assert_eq!(stage.model.screens.len(), 4);
    stage.press("~ p ? ?");
    assert_eq!(stage.model.screens.len(), 2, "a second press closes the help");
}

#[test]
fn a_word_that_would_be_ignored_is_an_error_con_3() {
    let mut stage = shop();
    for (typed, why) in [
        ("pf_web_80", "unexpected \"web\": pf takes no argument"),
        ("topology_zone-a", "unexpected \"zone-a\": topology takes no argument"),
        ("pods_default_other", "default: unexpected \"other\" after the namespace"),
    ] {
        stage.press(&format!(": \"{typed}\" enter"));
        shows(&mut stage, &[why]);
        stage.press("esc");
    }
}
