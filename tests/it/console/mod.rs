//! The console without a server: fabricated stores, keys as scripts, the screen as text.

mod causes;
mod connections;
mod containers;
mod contexts;
mod controllers;
mod custom;
mod definitions;
mod dialogs;
mod drills;
mod edit;
mod events;
mod faults;
mod forwards;
mod heavy_screens;
mod journal;
mod linear;
mod links;
mod manifests;
mod nodes;
mod past;
mod pending;
mod pictures;
mod prompt;
mod tables;
mod test_console;
mod whole_window;

use k8s_openapi::api::core::v1::Pod;
use podium::console::model::Job;
use podium::console_data::action::Outcome;
use podium::console_data::message::Message;
use podium::console_data::scope::Scope;
use podium::console_data::store::{Change, Delta};
use podium::console_toolkit::toast::Toast;
use serde_json::json;
use test_console::{TestConsole, cluster, objects, pod};

/// Checks that every line of `expected` is on the screen, in this order; the width of gaps does not matter.
fn shows(screen: &str, expected: &[&str]) {
    let narrow = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = screen.lines().map(|line| format!(" {} ", narrow(line)));
    for want in expected {
        let words = narrow(want);
        assert!(lines.any(|line| line.contains(&words)), "{want:?} is not (there) in\n{screen}");
    }
}

fn acted(jobs: &[Job]) -> Vec<String> {
    let command = |job: &Job| match job {
        Job::Act(action) => Some(action.kubectl.clone()),
        _ => None,
    };
    jobs.iter().filter_map(command).collect()
}

/// Completes the actions among jobs as if the server had accepted them.
fn succeed(stage: &mut TestConsole, jobs: Vec<Job>) {
    for job in jobs {
        if let Job::Act(action) = job {
            stage.send(Message::ActionEnded(Box::new(Outcome { action: *action, error: None, after: None })));
        }
    }
}

#[test]
fn the_overview_tells_what_moves_and_what_hurts_con_2() {
    let mut stage = TestConsole::new(120, 36);
    shows(&stage.screen(), &["connecting…", "waiting for the first list…"]);
    stage.feed(cluster());
    shows(
        &stage.screen(),
        &[
            " podium ▸ Overview                                            3 nodes ● 2 ✖ 1   10 pods ● 5 ◐ 2 ✔ 1 ↻ 1 ✖ 1   rev 1 204",
            " 2 on the way  1 of 3 available ╮",
            "│ ● Running      5 ████████▌········ ││ ◐ cart  ················ 0/1                 ImagePullBackOff nginx:1.27",
            "│ ◐ Pending      2 ███▍············· ││ ◐ web   ████············ 1/4  old ████···· 2  Progressing",
            "│ ✔ Succeeded    1 █▊··············· ││ ● api   ████████████████ 2/2                  Available",
            " requested · 2 of 3 ready ╮",
            "│ ● node-1   Ready     zone-a  pods",
            "│ ◌ node-2   cordoned  zone-b  pods",
            "│ ? node-10  NotReady  zone-a  pods",
            " 2 in the last minute ╮",
            "│   3s   deployment/web  ScalingReplicaSet  Scaled up replica set web-new from 1 to 2",
            "│  12s ⚠ pod/cart-1-a    BackOff            Back-off pulling image \"nginx:1.91\"",
            " <p>pods  <d>deployments  <n>nodes  <e>events  <s>services  <W>why  <{>past  <V>versions  <T>timeline  <?>more",
        ],
    );
}

#[test]
fn every_screen_fits_a_small_terminal_con_1() {
    let mut stage = TestConsole::new(80, 24);
    stage.feed(cluster());
    shows(&stage.screen(), &["podium ▸ Overview    3 nodes", "│ ● Running      5 ████▌···· │"]);
    for keys in ["p", "~ d", "~ n", "~ e", "~ s", "~ ?", "~ U", "~ ctrl-a", "~ d y", "~ n d"] {
        stage.press(keys);
        let screen = stage.screen();
        assert_eq!(screen.lines().count(), 24);
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{keys}\n{screen}");
    }
    stage.resize(39, 9);
    shows(&stage.screen(), &["the terminal is too small", "at least 40×10, now 39×9"]);
    stage.resize(80, 24);
    assert!(!stage.screen().contains("too small"));
}

#[test]
fn pods_are_shown_with_the_columns_of_kubectl_con_4() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.press("p");
    shows(
        &stage.screen(),
        &[
            "╭ Pods all 10 ─",
            "│   NAMESPACE      NAME ↑         READY      STATUS                   RESTARTS         NODE        IP            AGE",
            "│ ▸ default        api-1-a        1/1        ● Running                0                node-1      10.0.0.7      118m",
            "│   default        cart-1-a       0/1        ✖ ImagePullBackOff       0                node-2      10.0.0.8      2m13s",
            "│   default        web-new-b      0/1        ◐ ContainerCreating      0                node-1      10.0.0.9      3s",
            "│   shop           crash          0/1        ↻ CrashLoopBackOff       4 (30s ago)      node-1      10.0.0.5      5m",
            "│   shop           seed           0/1        ✔ Completed              0                node-1      10.0.0.4      8m20s",
            "│   shop           waiting        0/1        ◐ Pending                0                <none>      <none>        12s",
        ],
    );
}

#[test]
fn keys_do_what_the_footer_says_con_3() {
    // The screen starts with the overview. Each case: keys, then the expected screen.
    for (keys, expected) in [
        ("p /", vec!["Pods all 10", " /   regex"]),
        ("p / \"web\" enter", vec!["Pods all 4 of 10 /web"]),
        ("p / \"!web\" enter", vec!["Pods all 6 of 10 /!web"]),
        ("p / \"-l_app=web\" enter", vec!["Pods all 4 of 10"]),
        ("p / \"web(\"", vec!["✖ unclosed group"]),
        ("p / \"web\" enter esc", vec!["Pods all 10 ─"]),
        ("p ctrl-z", vec!["Pods all 4 of 10 faults only"]),
        ("p 1", vec!["Pods default 7"]),
        ("p 2", vec!["Pods shop 3"]),
        ("p 2 0", vec!["Pods all 10"]),
        ("p S", vec!["STATUS ↑", "seed", "web-new-b", "crash", "cart-1-a", "waiting", "api-1-b"]),
        ("p S S", vec!["STATUS ↓", "api-1-a", "waiting", "seed"]),
        ("p space", vec!["◆ 1 marked", "◆ default api-1-a"]),
        ("p space j space j", vec!["◆ 2 marked", "◆ default", "◆ default", "▸ default        cart"]),
        ("p space / \"crash\" enter", vec!["◆ 1 marked, 1 hidden"]),
        ("p J", vec!["ReplicaSets all 4", "▸ default        api-1"]),
        ("p o", vec!["Nodes 3", "▸ node-1"]),
        ("d enter", vec!["Pods of api 2", "api-1-a", "api-1-b"]),
        ("d j j z", vec!["ReplicaSets of web 2", "web-new", "web-old"]),
        ("n enter", vec!["Pods on node-1 6"]),
        ("tab enter", vec!["Pods on node-1 6"]),
        ("e o", vec!["Deployments all 3", "▸ default        web"]),
        ("e p", vec!["‖ held"]),
        ("e w", vec!["Events all 1 warnings only", "Back-off pulling image"]),
        (": \"po\" enter", vec!["Pods all 10"]),
        (": \"po_shop\" enter", vec!["Pods shop 3"]),
        (": \"po_/cart\" enter", vec!["Pods all 1 of 10 /cart"]),
        (": \"depl\"", vec!["│ deployments", " :deployments"]),
        (": \"depl\" enter", vec!["Deployments all 3"]),
        (": \"wobble\" enter", vec!["✖ no kind or command \"wobble\""]),
        (": \"po_shpo\" enter", vec!["✖ no namespace \"shpo\"; did you mean \"shop\"?"]),
        ("p : \"nodes\" enter -", vec!["Nodes 3"]),
        ("d ?", vec!["Deployments", "Rollout: progress, history, undo", "Any table"]),
        ("ctrl-a", vec!["poddisruptionbudgets              pdb         policy/v1"]),
        ("U", vec!["no changes were made from this console yet"]),
    ] {
        let mut stage = TestConsole::new(120, 36);
        stage.feed(cluster());
        stage.press(keys);
        let screen = stage.screen();
        shows(&screen, &expected);
    }
}

#[test]
fn changes_ask_act_and_are_remembered_con_6() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.press("d j j s");
    shows(&stage.screen(), &["Scale Deployment default/web", "▸ replicas   4▏   now 4", "Cancel      Scale"]);
    assert!(acted(&stage.press("esc")).is_empty(), "leaving a dialog changes nothing");

    let jobs = stage.press("s 9 enter");
    assert_eq!(acted(&jobs), ["kubectl scale deployment/web -n default --replicas=9"]);
    succeed(&mut stage, jobs);
    shows(&stage.screen(), &["✔ scale Deployment default/web 4 → 9"]);

    stage.press("U");
    shows(
        &stage.screen(),
        &[
            "✔ scale Deployment default/web 4 → 9                                                              <u> undo",
            "kubectl scale deployment/web -n default --replicas=9",
        ],
    );
    let now = json!({"spec": {"replicas": 9}});
    let jobs = journal::confirm_undo(&mut stage, &now, &json!({"spec": {"replicas": 4}}));
    assert_eq!(acted(&jobs), ["kubectl scale deployment/web -n default --replicas=4"]);
    assert!(stage.press("u").is_empty(), "an action is taken back once");
}

/// The key that opens the rollout starts an undo there, and a toast does not cover the rollout's totals.
#[test]
fn the_cockpit_keeps_its_totals_in_sight_and_takes_the_key_that_led_there_con_5() {
    for (width, height) in [(80, 24), (120, 36), (40, 12)] {
        let mut stage = TestConsole::new(width, height);
        stage.feed(cluster());
        stage.press("d j j ctrl-l");
        let totals = |screen: &str| {
            let line = screen.lines().find(|line| line.contains("new web-new")).map(str::to_owned);
            line.expect("the new side")
        };
        let before = totals(&stage.screen());
        stage.send(Message::Toast(Toast::failed("something failed elsewhere")));
        let screen = stage.screen();
        assert!(screen.contains("something failed") && totals(&screen) == before, "{screen}");
        stage.press("esc R ctrl-l");
        shows(&stage.screen(), &["Undo web", "Back to revision 1"]);
    }
}

#[test]
fn marked_sets_keep_each_their_own_count_con_6() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.press("d space j space s");
    shows(&stage.screen(), &["Scale 2 workloads", "▸ api    2▏   now 2", "  cart   1    now 1"]);
    let jobs = stage.press("3 enter");
    assert_eq!(
        acted(&jobs),
        ["kubectl scale deployment/api -n default --replicas=3"],
        "the unchanged one is left alone"
    );
}

#[test]
fn deleting_names_what_goes_and_starts_on_cancel_con_6() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.press("d j j ctrl-d");
    shows(
        &stage.screen(),
        &[
            "Delete Deployment default/web",
            "dependents",
            "web: also deletes 2 replica sets and 4 pods",
            "▸ Cancel      Delete",
        ],
    );
    assert!(acted(&stage.press("enter")).is_empty(), "the first enter is Cancel");
    let jobs = stage.press("ctrl-d tab enter");
    assert_eq!(acted(&jobs), ["kubectl delete deployment/web -n default"]);
    stage.press("ctrl-d shift-tab shift-tab shift-tab left");
    shows(&stage.screen(), &["‹ orphan ›", "web: leaves 2 replica sets and 4 pods behind"]);
    assert!(!stage.screen().contains("also deletes"));
    stage.press("esc");

    stage.press("~ p / \"crash\" enter ctrl-d shift-tab space");
    shows(
        &stage.screen(),
        &["crash: no controller; nothing will replace it", "Force: the API removes the pod at once"],
    );
    let jobs = stage.press("tab tab enter");
    assert_eq!(acted(&jobs), ["kubectl delete pod/crash -n shop --grace-period=0 --force"]);

    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.press("p space / \"crash\" enter ctrl-d");
    shows(&stage.screen(), &["Delete Pod default/api-1-a", "1 of these are marked but hidden by the filter"]);
}

#[test]
fn nodes_and_images_con_6() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    assert_eq!(acted(&stage.press("n c")), ["kubectl cordon node-1"]);
    assert_eq!(
        acted(&stage.press("space j space u")),
        ["kubectl uncordon node-1", "kubectl uncordon node-2"]
    );
    assert_eq!(
        acted(&stage.press("~ d i ctrl-u \"nginx:1.28\" enter")),
        ["kubectl set image deployment/api -n default main=nginx:1.28"]
    );
    assert_eq!(acted(&stage.press("r right enter")), ["kubectl rollout restart deployment/api -n default"]);
}

#[test]
fn read_only_refuses_every_change_con_3() {
    for keys in ["p ctrl-d", "p ctrl-k", "p e", "p s", "d s", "d r", "d ctrl-l", "n c", "n r"] {
        let mut stage = TestConsole::with(120, 36, Scope::All, true);
        stage.feed(cluster());
        let jobs = stage.press(keys);
        assert!(acted(&jobs).is_empty());
        shows(&stage.screen(), &["read-only", "✖ read-only: "]);
    }
}

#[test]
fn errors_show_the_servers_message_whole_con_15() {
    let mut stage = TestConsole::new(80, 24);
    stage.feed(cluster());
    let message =
        "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1,\nused: pods=10, limited: pods=10";
    stage.send(Message::Toast(Toast::failed(message)));
    shows(
        &stage.screen(),
        &[
            "✖ pods \"x\" is forbidden: exceeded quota: q, requested: pods=1,",
            "used: pods=10, limited: pods=10",
        ],
    );
    stage.press("esc");
    assert!(!stage.screen().contains("forbidden"), "escape puts it away");
}

#[test]
fn the_cursor_stays_with_its_object_con_1() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.press("p j j");
    shows(&stage.screen(), &["▸ default        cart-1-a"]);
    let one = |name: &str| objects([pod("default", name, None, Some("node-1"), "Running", 1)]).remove(0);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Applied(one("aaa"))])]);
    shows(&stage.screen(), &["  default        aaa", "▸ default        cart-1-a"]);
    // Its object is deleted: the cursor stays at its line of the screen.
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Deleted(
        objects([pod("default", "cart-1-a", None, None, "Pending", 1)]).remove(0),
    )])]);
    shows(&stage.screen(), &["▸ default        web-new-a"]);
}

#[test]
fn an_idle_console_says_when_it_next_changes_con_1() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    stage.press("n");
    stage.screen();
    assert!(!stage.model.dirty || stage.model.shared.wake.get().is_some());
    // The nodes are 150 minutes old: nothing changes for a minute.
    let wake = stage.model.shared.wake.get().expect("ages are on the screen");
    assert_eq!(wake.duration_since(stage.now).as_secs(), 60);
}

#[test]
fn hostile_names_cannot_drive_the_terminal_sec_3() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    let evil = pod("default", "\u{1b}[2J\u{1b}]0;owned\u{7}", None, Some("node-1"), "Running", 1);
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Applied(objects([evil]).remove(0))])]);
    stage.press("p");
    let screen = stage.screen();
    assert!(!screen.chars().any(|c| c.is_control() && c != '\n'));
    shows(&screen, &["␛[2J␛]0;owned␇"]);
}

#[test]
fn ten_thousand_pods_are_one_index_con_1() {
    let mut stage = TestConsole::new(120, 36);
    stage.feed(cluster());
    let many = (0..10_000).map(|n| pod("default", &format!("load-{n}"), None, Some("node-1"), "Running", n));
    stage.feed(vec![Delta::of::<Pod>(vec![Change::Reset(objects(many))])]);
    stage.press("p G");
    shows(&stage.screen(), &["Pods all 10 000", "▸ default        load-9999"]);
    stage.press("/ \"load-77..$\" enter");
    shows(&stage.screen(), &["Pods all 10 000 /load-77..$ …"]);
    // The loop continues with the filter between frames.
    while stage.model.works() {
        stage.send(Message::Work);
    }
    shows(&stage.screen(), &["Pods all 100 of 10 000", "load-7700"]);
}
