//! Restored tabs on a test terminal (CON-17).

use k8s_openapi::api::core::v1::{Namespace, Node};
use serde_json::json;

use super::tabs_tests::{TestConsole, objects};
use super::*;
use console_data::catalogue::Catalogue;
use console_data::message::Data;
use console_data::message::Message;
use console_data::saved_tabs::SavedTabs;
use console_data::saved_tabs::{
    SavedContainers, SavedDrain, SavedScreen, SavedStage, SavedTab, SavedTerminal, SavedView,
};
use console_data::store::{Change, Delta};
use console_screens::describe::DescribeData;
use console_screens::edit::EditData;
use console_screens::yaml::YamlData;

/// A console with a known cluster, and the jobs that followed from that.
fn started(width: u16, height: u16) -> (TestConsole, Vec<Job>) {
    let mut stage = TestConsole::new(width, height);
    stage.model.setup.config_dir = Some("/nowhere".into());
    let system = json!({"metadata": {"name": "kube-system", "uid": "c1"}});
    let jobs = stage.feed(Delta::of::<Namespace>(vec![Change::Applied(objects([system]).remove(0))]));
    (stage, jobs)
}

fn view(group: &str, plural: &str) -> SavedView {
    SavedView { group: group.into(), plural: plural.into(), ..SavedView::default() }
}

#[test]
fn tabs_come_back_as_they_were_left_con_17() {
    for (width, height) in [(80, 24), (140, 40), (40, 12)] {
        let (mut stage, jobs) = started(width, height);
        assert!(
            jobs.iter().any(|job| matches!(job, Job::Disk(uid, DiskJob::ReadTabs) if uid.as_str() == "c1")),
            "{jobs:?}"
        );
        assert!(
            stage.model.saved_tabs().is_none(),
            "the saved tabs are not overwritten before they are read"
        );
        stage.model.update(Message::SavedTabs(SavedTabs::default()), stage.now);
        stage.press("p 1 / \"a[pra]\" enter S S G ctrl-t : \"no\" enter");
        let jobs = stage.press("ctrl-t p 2 ctrl-p alt-1");
        let before = stage.screen();
        assert!(before.contains("▸1 Pods"), "{before}");
        assert!(
            jobs.iter()
                .any(|job| matches!(job, Job::Disk(uid, DiskJob::SaveTabs(_)) if uid.as_str() == "c1")),
            "{jobs:?}"
        );
        let (cluster, saved) = stage.model.saved_tabs().expect("known by now");
        assert_eq!((cluster.as_str(), saved.tabs.len(), saved.front), ("c1", 3, 0));

        let (mut next, _) = started(width, height);
        next.model.update(Message::SavedTabs(saved.clone()), next.now);
        next.now = next.now.saturating_add(jiff::SignedDuration::from_secs(60)).unwrap();
        next.model.toasts.expire(next.now);
        next.now = stage.now;
        assert_eq!(next.screen(), before);
        assert_eq!(next.model.saved_tabs().expect("known").1, saved);
        next.press("alt-3");
        stage.press("alt-3");
        assert_eq!(next.screen(), stage.screen());
        // A second message changes nothing.
        next.model.update(Message::SavedTabs(SavedTabs::default()), next.now);
        assert_eq!(next.model.tabs.count(), 3);
    }
}

#[test]
fn missing_views_are_left_out_and_reported_con_17() {
    let (mut stage, _) = started(80, 24);
    let tab = |namespace: Option<&str>, views: Vec<SavedView>| SavedTab {
        namespace: namespace.map(Into::into),
        views,
        ..SavedTab::default()
    };
    let gadgets = view("x.io", "gadgets");
    let saved = SavedTabs {
        front: 5,
        background: Vec::new(),
        was_left: true,
        tabs: vec![
            tab(None, vec![gadgets.clone(), view("", "pods")]),
            tab(Some("away"), vec![SavedView { selected: Some((None, "gone".into())), ..view("", "pods") }]),
            tab(None, vec![SavedView { sort: Some("NO SUCH".into()), ..view("", "nodes") }]),
        ],
    };
    stage.model.update(Message::SavedTabs(saved), stage.now);
    assert_eq!(stage.model.tabs.count(), 1, "which kinds there are is not known yet");
    assert!(stage.model.saved_tabs().is_none());
    stage.model.update(Message::Catalogue(Catalogue::of(builtin_kinds::kinds())), stage.now);
    let screen = stage.screen();
    assert!(screen.contains(" 1 Pods  2 Pods ▸3 Nodes"), "{screen}");
    assert!(screen.contains("not restored, no longer in this cluster: gadgets.x.io,"), "{screen}");
    assert!(screen.contains("namespace away"), "{screen}");
    assert!(screen.contains("restored the last run; --no-restore starts without it"), "{screen}");
}

#[test]
fn screens_opened_before_the_restore_stay_open_con_17() {
    let (mut stage, _) = started(80, 24);
    stage.press("d");
    let saved = SavedTabs {
        tabs: vec![SavedTab { views: vec![view("", "pods")], ..SavedTab::default() }],
        ..SavedTabs::default()
    };
    stage.model.update(Message::SavedTabs(saved), stage.now);
    let screen = stage.screen();
    assert!(screen.contains("Deployments") && screen.contains(":restore opens the tabs"), "{screen}");
    stage.press(": \"restore\" enter");
    assert!(stage.bar().contains(" 1 Deployments ▸2 Pods"), "{}", stage.screen());
    stage.press(": \"restore\" enter");
    assert!(stage.screen().contains("no tabs of the last run to restore"), "{}", stage.screen());
}

#[test]
fn object_views_are_restored_or_reported_as_gone_con_17() {
    let of = |name: &str, screen: SavedScreen| SavedView {
        screen,
        object: Some((Some("default".to_owned()), name.to_owned())),
        ..view("", "pods")
    };
    let logs = SavedScreen::Logs { previous: false, which: SavedContainers::All };
    let tab = |views: Vec<SavedView>| SavedTab { views, ..SavedTab::default() };
    for (width, height) in [(80, 24), (140, 40)] {
        let (mut stage, _) = started(width, height);
        let saved = SavedTabs {
            front: 3,
            background: Vec::new(),
            was_left: true,
            tabs: vec![
                tab(vec![view("", "pods"), of("web", logs.clone())]),
                tab(vec![of("gone", logs.clone())]),
                tab(vec![of("gone", SavedScreen::Describe)]),
                tab(vec![of("gone", SavedScreen::Yaml)]),
            ],
        };
        let jobs = stage.model.update(Message::SavedTabs(saved.clone()), stage.now);
        assert!(jobs.iter().filter(|job| matches!(job, Job::Start(_))).count() >= 4, "{jobs:?}");
        let later = stage.now.saturating_add(jiff::SignedDuration::from_secs(60)).unwrap();
        stage.model.toasts.expire(later);
        let id = stage.model.top().0;
        let failed = YamlData::Failed("pods \"gone\" not found".to_owned());
        stage.model.update(Message::Data(id, Data::new(failed)), stage.now);
        assert!(stage.screen().contains("pods \"gone\" not found"), "{}", stage.screen());
        stage.press("alt-3");
        let id = stage.model.top().0;
        stage.model.update(Message::Data(id, Data::new(DescribeData::Deleted)), stage.now);
        assert!(stage.screen().contains("Pod default/gone is gone"), "{}", stage.screen());
        stage.press("alt-2");
        assert!(stage.screen().contains("Pod default/gone not found"), "{}", stage.screen());
        stage.press("alt-1");
        assert!(stage.screen().contains("logs · default/web"), "{}", stage.screen());
        stage.press("esc");
        assert!(stage.screen().contains("Pods all 4"), "{}", stage.screen());
        stage.press("l alt-4");
        let again = stage.model.saved_tabs().expect("known").1;
        assert_eq!(again.tabs[1..], saved.tabs[1..]);
        assert_eq!(again.tabs[0].views.len(), 2);
    }
}

#[test]
fn panes_come_back_with_what_they_showed_con_17() {
    for (keys, second) in [
        (": \"vsplit_yaml\" enter", "Pod default/cart"),
        (": \"split_describe\" enter f6", "Pod default/cart"),
        (": \"vs_events\" enter f8 f9", "Events"),
        ("|", "logs"),
    ] {
        let (mut stage, _) = started(140, 40);
        stage.model.update(Message::SavedTabs(SavedTabs::default()), stage.now);
        stage.press("p j");
        stage.press(keys);
        let saved = stage.model.saved_tabs().expect("known").1;
        let saved: SavedTabs = serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap();
        let (mut next, _) = started(140, 40);
        next.model.update(Message::SavedTabs(saved.clone()), next.now);
        let screen = next.screen();
        assert!(screen.contains(second) && screen.contains("Pods all 4"), "{keys}\n{screen}");
        assert_eq!(next.model.saved_tabs().expect("known").1, saved, "{keys}");
    }
}

/// A killed console writes nothing at its end: its state is saved before.
#[test]
fn a_console_that_was_killed_in_a_drain_says_so_and_can_resume_it_con_17() {
    let (mut stage, _) = started(100, 30);
    stage.model.update(Message::SavedTabs(SavedTabs::default()), stage.now);
    let node = |cordoned: bool| json!({"metadata": {"name": "n1", "uid": "n1"}, "spec": {"unschedulable": cordoned.then_some(true)}});
    let reset = |cordoned: bool| Delta::of::<Node>(vec![Change::Reset(objects([node(cordoned)]))]);
    stage.feed(reset(false));
    let on_node = |name: &str| {
        let mut pod = super::tabs_tests::pod("default", name);
        pod["spec"]["nodeName"] = json!("n1");
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "w", "controller": true}]);
        pod["metadata"]["ownerReferences"] = owner;
        pod
    };
    stage.feed(Delta::of::<k8s_openapi::api::core::v1::Pod>(vec![Change::Reset(objects([
        on_node("a"),
        on_node("b"),
    ]))]));
    let last = |jobs: &[Job]| {
        let mut saved = jobs.iter().rev().filter_map(|job| match job {
            Job::Disk(_, DiskJob::SaveTabs(tabs)) => Some(tabs.clone()),
            _ => None,
        });
        saved.next()
    };
    // Every view that opens is saved, in any tab.
    for keys in ["n", "r", "esc", "r"] {
        assert!(last(&stage.press(keys)).is_some_and(|tabs| !tabs.was_left), "{keys}");
    }
    assert!(last(&stage.press("j")).is_none(), "moving opens nothing");
    let jobs = stage.press("D");
    assert!(jobs.iter().any(|job| matches!(job, Job::Start(_))), "{}", stage.screen());
    let saved = last(&jobs).expect("a started drain is saved");

    let (mut next, _) = started(100, 30);
    next.feed(reset(true));
    let jobs = next.model.update(Message::SavedTabs(saved.clone()), next.now);
    assert!(!jobs.iter().any(|job| matches!(job, Job::Act(_))), "nothing goes on by itself");
    let screen = next.screen();
    for expected in
        ["the last run ended unexpectedly", "drain of n1 interrupted, 0 of 0 pods gone; nodes stay cordoned"]
    {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    assert!(!screen.contains("restored the last run;"), "{screen}");
    next.now += std::time::Duration::from_mins(1);
    next.model.toasts.expire(next.now);
    let screen = next.screen();
    assert!(screen.contains("nodes still cordoned · D resumes · u uncordons"), "{screen}");

    // A console that ends normally records that.
    stage.model.is_leaving = true;
    assert!(stage.model.saved_tabs().is_some_and(|(_, tabs)| tabs.was_left));
}

/// The first console may be in a drain, which the second one must not call interrupted.
#[test]
fn a_second_console_on_a_cluster_says_that_the_first_runs_con_17() {
    for (width, height) in [(80, 24), (140, 40)] {
        let (mut stage, _) = started(width, height);
        stage.model.update(Message::TabsInUse, stage.now);
        let screen = stage.screen();
        assert!(screen.contains("another console is open on this cluster"), "{screen}");
        assert!(!screen.contains("ended unexpectedly") && stage.model.tabs.count() == 1, "{screen}");
        let jobs = stage.press("p");
        assert!(
            jobs.iter().any(|job| matches!(job, Job::Disk(_, DiskJob::SaveTabs(_)))),
            "its tabs are saved once the first ends"
        );
    }
}

#[test]
fn drains_terminals_and_editors_come_back_and_do_nothing_by_themselves_con_17() {
    let of = |plural: &str, name: &str, screen: SavedScreen| SavedView {
        screen,
        object: Some(((plural == "pods").then(|| "default".to_owned()), name.to_owned())),
        ..view("", plural)
    };
    let shell = SavedScreen::Terminal { what: SavedTerminal::Shell, container: "main".to_owned() };
    let debugger = SavedScreen::Terminal { what: SavedTerminal::Debug, container: "debugger-1".to_owned() };
    let drain = |nodes: &[&str]| {
        SavedScreen::Drain(SavedDrain {
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            stage: SavedStage::Running,
            gone: 3,
            leaving: 9,
            grace_seconds: Some(60),
            force: true,
            ..SavedDrain::default()
        })
    };
    let tab = |views: Vec<SavedView>| SavedTab { views, ..SavedTab::default() };
    for (width, height) in [(80, 24), (140, 40)] {
        let (mut stage, _) = started(width, height);
        let nodes = ["n1", "n2"].map(|name| json!({"metadata": {"name": name, "uid": name}}));
        stage.feed(Delta::of::<Node>(vec![Change::Reset(objects(nodes))]));
        let saved = SavedTabs {
            front: 0,
            was_left: true,
            tabs: vec![
                tab(vec![of("nodes", "n1", drain(&["n1", "n2"]))]),
                tab(vec![view("", "pods"), of("pods", "web", shell.clone())]),
                tab(vec![of("pods", "web", SavedScreen::Edit { unsaved: true })]),
            ],
            background: vec![
                of("nodes", "n2", drain(&["n2"])),
                of("nodes", "n9", drain(&["n9"])),
                of("pods", "cart", debugger.clone()),
            ],
        };
        let jobs = stage.model.update(Message::SavedTabs(saved.clone()), stage.now);
        // Restoring starts no action: the editor requests its object, and that is all.
        assert!(!jobs.iter().any(|job| matches!(job, Job::Act(..))), "{jobs:?}");
        let started: Vec<String> = jobs
            .iter()
            .filter_map(|job| if let Job::Start(task) = job { Some(format!("{task:?}")) } else { None })
            .collect();
        assert!(
            !started.iter().any(|task| task.contains("drain") || task.contains("session")),
            "{started:?}"
        );
        let screen = stage.screen();
        assert!(screen.contains("ended with the last run, :background shows them"), "{screen}");
        assert!(screen.contains("node n9"), "the drain of a deleted node is reported:\n{screen}");
        let later = stage.now.saturating_add(jiff::SignedDuration::from_secs(60)).unwrap();
        stage.model.toasts.expire(later);
        let screen = stage.screen();
        for expected in ["Drain 2 nodes", "it does not resume by itself", "grace: 60s", "[x] evict unmanaged"]
        {
            assert!(screen.contains(expected), "{expected}\n{screen}");
        }
        if width > 80 {
            assert!(screen.contains("interrupted by the console's end, 3 of 9 were gone"), "{screen}");
        }
        // The shell's process is gone; the view names the key that opens another, and the key works.
        stage.press("alt-2");
        let screen = stage.screen();
        assert!(screen.contains("the session ended with its console"), "{screen}");
        assert!(screen.contains("r again"), "{screen}");
        // Saving it again gives the same.
        assert_eq!(stage.model.saved_tabs().expect("known").1.background[0], saved.background[0]);
        let again = stage.model.saved_tabs().expect("known").1;
        assert_eq!(again.tabs[0], saved.tabs[0]);
        assert_eq!(again.tabs[1].views.last(), saved.tabs[1].views.last());
        let jobs = stage.press("r");
        assert!(
            jobs.iter().any(|job| matches!(job, Job::Start(task) if format!("{task:?}").contains("session"))),
            "{jobs:?}"
        );
        // The background views, the newest first.
        let background: Vec<String> = stage
            .model
            .background(stage.now)
            .iter()
            .map(|(id, screen)| screen.title(&stage.model.shared.context_of(*id, stage.now)))
            .collect();
        assert_eq!(background.len(), 2, "{background:?}");
        assert!(background.contains(&"drain n2".to_owned()), "{background:?}");
        assert!(
            background.contains(&"cart · attach".to_owned()),
            "a debugger is attached to: {background:?}"
        );
        // The editor reports the loss of its text.
        stage.press("ctrl-] alt-3");
        let id = stage.model.top().0;
        let object =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}});
        stage.model.update(Message::Data(id, Data::new(EditData::Object(Box::new(object)))), stage.now);
        let screen = stage.screen();
        assert!(screen.contains("your earlier text is lost"), "{screen}");
    }
}
