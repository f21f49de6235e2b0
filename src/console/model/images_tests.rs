//! The images of nodes: the list, pulls with their progress, removals, and the way from and to pods (CON-22); and the
//! progress of pulls in pods (CON-4).

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use serde_json::{Value, json};

use super::Job;
use super::tabs_tests::{TestConsole, objects, pod};
use console_data::action::Mutation;
use console_data::message::{Data, Message};
use console_data::saved_tabs::SavedTabs;
use console_data::store::{Change, Delta};
use console_operations::operations::image::ImageOperation;
use console_screens::images::{ImagesData, NodeAnswer, TextData};
use console_screens::table::Table;
use console_toolkit::theme::depth::Depth;
use object::node_image::{NodeImage, NodeImagePull, NodeImageSource, NodeImages};

fn image(name: &str, source: NodeImageSource, pods: &[&str]) -> NodeImage {
    NodeImage {
        names: vec![name.to_owned()],
        id: format!("sha256:0123456789abcdef{name}"),
        size_bytes: 71_000_000,
        source,
        pods: pods.iter().map(|&pod| pod.to_owned()).collect(),
        last_used: "2026-05-01T11:55:00Z".parse().ok(),
        ..NodeImage::default()
    }
}

fn listed(pulls: Vec<NodeImagePull>) -> NodeAnswer {
    let images = vec![
        image("nginx:1.27", NodeImageSource::Pulled, &["default/web"]),
        image("shop/app:v1\u{1b}[2J", NodeImageSource::Loaded, &[]),
        image("busybox:latest", NodeImageSource::BuiltIn, &[]),
    ];
    NodeAnswer::Images(NodeImages { images, pulls, omitted: 0 })
}

fn pulling(done_bytes: u64) -> NodeImagePull {
    let image = "127.0.0.1:5000/redis:7".to_owned();
    NodeImagePull { image, done_bytes, total_bytes: Some(100_000_000), error: None }
}

/// A console with a node of Podium's, and one of another kubelet.
fn stage_in(width: u16, height: u16, depth: Depth) -> TestConsole {
    let mut stage = TestConsole::in_depth(width, height, depth);
    let node = |name: &str, images: Value| json!({"metadata": {"name": name, "uid": name}, "status": {"images": images}});
    let images = json!([{"names": ["registry.k8s.io/pause:3.9"], "sizeBytes": 740_000}]);
    let nodes = [node("node-1", json!([])), node("other-1", images)];
    stage.feed(Delta::of::<Node>(vec![Change::Reset(objects(nodes))]));
    stage
}

fn stage(width: u16, height: u16) -> TestConsole {
    stage_in(width, height, Depth::True)
}

fn answer(stage: &mut TestConsole, answers: Vec<(&str, NodeAnswer)>) -> Vec<Job> {
    let answers = answers.into_iter().map(|(node, answer)| (node.to_owned(), answer)).collect();
    let id = stage.model.top().0;
    stage.model.update(Message::Data(id, Data::new(ImagesData::Answers(answers))), stage.now)
}

fn send(stage: &mut TestConsole, operation: ImageOperation) -> Vec<Job> {
    let id = stage.model.top().0;
    stage.model.update(Message::Data(id, Data::new(operation)), stage.now)
}

fn shows(stage: &mut TestConsole, expected: &[&str]) {
    let screen = stage.screen();
    for text in expected {
        assert!(screen.contains(text), "{text:?} is not in\n{screen}");
    }
}

#[test]
fn images_of_all_nodes_are_listed_with_what_is_known_con_22() {
    for (width, height) in [(80, 24), (140, 40)] {
        let mut stage = stage(width, height);
        let jobs = stage.press(": \"images\" enter");
        assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "the nodes are asked");
        shows(&mut stage, &["Images 1", "other-1", "registry.k8s.io/pause:3.9", "740kB"]);
        answer(&mut stage, vec![("node-1", listed(Vec::new())), ("other-1", NodeAnswer::Absent)]);
        let screen = stage.screen();
        let line = |name: &str| {
            screen.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{screen}"))
        };
        let nginx = line("nginx:1.27");
        assert!(["node-1", "71.0MB", "pulled"].iter().all(|text| nginx.contains(text)), "{screen}");
        assert!(nginx.contains("5m"), "{screen}");
        assert!(line("busybox").contains("built-in"), "{screen}");
        assert!(line("pause").split_whitespace().any(|word| word == "-"), "{screen}");
        assert!(screen.contains("1 node: names and sizes only"), "{screen}");
        assert!(screen.contains("shop/app:v1␛[2J"), "names cannot control the terminal\n{screen}");
    }
}

#[test]
fn narrow_screens_keep_names_and_sizes_con_20() {
    for (width, height, depth) in [(40, 10, Depth::True), (40, 12, Depth::Sixteen), (56, 16, Depth::None)] {
        let mut stage = stage_in(width, height, depth);
        stage.press(": \"img\" enter");
        answer(&mut stage, vec![("node-1", listed(vec![pulling(43_000_000)]))]);
        shows(&mut stage, &["nginx:1.27", "71.0MB", "Pulling 43%"]);
    }
}

#[test]
fn a_pull_is_requested_shown_and_reported_con_22() {
    let mut stage = stage(110, 30);
    stage.press(": \"images\" enter");
    answer(&mut stage, vec![("node-1", listed(Vec::new())), ("other-1", NodeAnswer::Absent)]);
    stage.press("p");
    shows(&mut stage, &["Pull an image", "node-1"]);
    let jobs = stage.press("enter");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "{jobs:?}");
    let accepted =
        ImageOperation::PullAccepted { node: "node-1".into(), image: "127.0.0.1:5000/redis:7".into() };
    send(&mut stage, accepted.clone());
    shows(&mut stage, &["pulling 127.0.0.1:5000/redis:7 on node-1"]);
    answer(&mut stage, vec![("node-1", listed(vec![pulling(43_900_000)]))]);
    let screen = stage.screen();
    let line = screen.lines().find(|line| line.contains("Pulling")).unwrap_or_else(|| panic!("{screen}"));
    assert!(
        line.contains("Pulling 43%") && line.contains("█") && line.contains("43.9 of 100.0 MB"),
        "{screen}"
    );
    answer(&mut stage, vec![("node-1", listed(Vec::new()))]);
    shows(&mut stage, &["pulled 127.0.0.1:5000/redis:7 on node-1"]);
    // A pull that fails says why, in the list, too.
    send(&mut stage, accepted);
    let error = Some("connection refused".to_owned());
    answer(&mut stage, vec![("node-1", listed(vec![NodeImagePull { error, ..pulling(0) }]))]);
    shows(&mut stage, &["pull of 127.0.0.1:5000/redis:7 on node-1: connection refused", "Pull failed"]);
}

#[test]
fn only_unused_images_of_the_store_are_removed_after_confirmation_con_22() {
    let mut stage = stage(110, 30);
    stage.press(": \"images\" enter");
    answer(&mut stage, vec![("node-1", listed(Vec::new())), ("other-1", NodeAnswer::Absent)]);
    for (name, refusal) in [
        ("busybox", "busybox:latest is built in"),
        ("nginx", "nginx:1.27 is in use by pod default/web: delete the pod first"),
        ("pause", "the kubelet of other-1 does not remove images"),
    ] {
        stage.press(&format!("/ ctrl-u \"{name}\" enter g ctrl-d"));
        shows(&mut stage, &[refusal]);
    }
    stage.press("/ ctrl-u \"shop\" enter g ctrl-d");
    shows(&mut stage, &["Remove shop/app:v1", "only its archive brings it"]);
    let jobs = stage.press("y");
    let acted = jobs.iter().find_map(|job| if let Job::Act(action) = job { Some(action) } else { None });
    let action = acted.unwrap_or_else(|| panic!("{jobs:?}"));
    let Mutation::RemoveImage { node, image } = &action.mutation else { panic!("{action:?}") };
    assert_eq!((node.name.as_str(), image.as_str()), ("node-1", "shop/app:v1\u{1b}[2J"));
    assert_eq!(
        action.kubectl,
        "kubectl delete --raw '/api/v1/nodes/node-1/proxy/images?name=shop/app:v1%1B%5B2J'"
    );
}

#[test]
fn an_image_leads_to_its_details_its_explanation_its_pods_and_its_node_con_22() {
    let mut stage = stage(110, 30);
    stage.press(": \"images\" enter");
    answer(&mut stage, vec![("node-1", listed(Vec::new())), ("other-1", NodeAnswer::Absent)]);
    stage.press("/ \"nginx\" enter enter");
    shows(&mut stage, &["Image sha256:0123456789abcdef", "asking the node", "name  nginx:1.27"]);
    let id = stage.model.top().0;
    let lines = vec!["Labels:   a=\u{1b}]0;x\u{7}".to_owned()];
    stage.model.update(Message::Data(id, Data::new(TextData(Ok(lines)))), stage.now);
    shows(&mut stage, &["a=␛]0;x␇"]);
    stage.press("esc e");
    shows(&mut stage, &["Source of nginx:1.27 on node-1"]);
    stage.press("esc esc o");
    shows(&mut stage, &["Nodes", "node-1"]);
}

#[test]
fn an_image_leads_to_the_pods_that_use_it_con_22() {
    let mut stage = stage(110, 30);
    let on_node = |namespace: &str, name: &str, image: &str| {
        let mut pod = pod(namespace, name);
        pod["spec"] = json!({"nodeName": "node-1", "containers": [{"name": "main", "image": image}]});
        pod
    };
    let mut away = on_node("default", "away", "nginx:1.27");
    away["spec"]["nodeName"] = json!("other-1");
    // The kubelet names the pod `web`, the container of `late` the image; another `web` only has the same name.
    let pods = [
        on_node("default", "web", "nginx@sha256:0123"),
        on_node("shop", "web", "httpd:2"),
        on_node("shop", "late", "docker.io/library/nginx:1.27"),
        away,
    ];
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects(pods))]));
    stage.press(": \"images\" enter");
    answer(&mut stage, vec![("node-1", listed(Vec::new())), ("other-1", NodeAnswer::Absent)]);
    stage.press("/ \"27\" enter u");
    let check = |stage: &mut TestConsole, count: usize| {
        let screen = stage.screen();
        assert!(screen.contains(&format!("Pods using nginx:1.27 on node-1 {count} ")), "{screen}");
        let is_row = |line: &&str| line.contains("Running");
        let rows: Vec<&str> = screen.lines().filter(is_row).collect();
        assert_eq!(rows.len(), count, "{screen}");
        assert!(rows.iter().any(|row| row.contains("late")), "{screen}");
        screen
    };
    let screen = check(&mut stage, 2);
    assert!(screen.contains("▸ Pods of nginx:1.27") && !screen.contains('^'), "{screen}");
    stage.press("/ \"nothing\" enter esc");
    check(&mut stage, 2);
    // The next session finds the pods by the names of the image.
    stage.model.setup.config_dir = Some("/nowhere".into());
    let system = json!({"metadata": {"name": "kube-system", "uid": "c1"}});
    stage.feed(Delta::of::<Namespace>(vec![Change::Applied(objects([system]).remove(0))]));
    stage.model.update(Message::SavedTabs(SavedTabs::default()), stage.now);
    let (_, saved) = stage.model.saved_tabs().expect("known");
    let saved: SavedTabs = serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap();
    stage.press("esc esc");
    let table = saved.tabs[0].views.last().expect("a table").clone();
    let view = Table::restored(console_data::builtin_kinds::kind::<Pod>(), None, Vec::new(), None, table);
    stage.model.open(view.into(), stage.now);
    check(&mut stage, 1);
}

#[test]
fn pods_and_nodes_lead_to_their_images_con_22() {
    let mut stage = stage(110, 30);
    let mut web = pod("default", "web");
    web["spec"]["nodeName"] = json!("node-1");
    stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([web]))]));
    stage.press("p I");
    answer(&mut stage, vec![("node-1", listed(Vec::new()))]);
    shows(&mut stage, &["Images of web 1", "nginx:1.27"]);
    stage.press(": \"nodes\" enter I");
    answer(&mut stage, vec![("node-1", listed(Vec::new()))]);
    shows(&mut stage, &["Images on node-1 3", "busybox:latest"]);
    stage.press("S S");
    shows(&mut stage, &["SIZE ↓"]);
}

#[test]
fn the_rows_of_pods_show_the_progress_of_pulls_con_4() {
    let waiting = |message: Option<&str>| {
        let mut web = pod("default", "web");
        web["status"]["phase"] = json!("Pending");
        web["status"]["containerStatuses"][0]["ready"] = json!(false);
        web["status"]["containerStatuses"][0]["state"] =
            json!({"waiting": {"reason": "ContainerCreating", "message": message}});
        web
    };
    for (width, height, depth) in
        [(80, 24, Depth::True), (140, 40, Depth::True), (80, 24, Depth::None), (60, 16, Depth::Sixteen)]
    {
        let mut stage = stage_in(width, height, depth);
        let feed = |stage: &mut TestConsole, message| {
            stage.feed(Delta::of::<Pod>(vec![Change::Reset(objects([waiting(message)]))]));
        };
        feed(&mut stage, Some("12.3 of 28.6 MB"));
        stage.press("p");
        let row = |stage: &mut TestConsole| {
            let screen = stage.screen();
            screen.lines().find(|line| line.contains("web")).unwrap_or_else(|| panic!("{screen}")).to_owned()
        };
        let shown = row(&mut stage);
        assert!(shown.contains("Pulling 43%"), "{shown}");
        assert!(shown.contains("% █"), "{width}: {shown}");
        feed(&mut stage, None);
        assert!(row(&mut stage).contains("ContainerCreating"));
        feed(&mut stage, Some("12.3 of 28.6 MB"));
        stage.press("enter");
        shows(&mut stage, &["Pulling 43% █", "pulling    █", "12.3 of 28.6 MB"]);
    }
}
