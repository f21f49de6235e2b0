//! Tests of the screens that are restored (CON-17).

use k8s_openapi::api::core::v1::{Namespace, Node};
use std::collections::BTreeSet;

use serde_json::json;

use super::tabs_tests::{TestConsole, objects, widgets};
use super::*;
use console_data::access::{AccessQuery, Attributes};
use console_data::catalogue::Catalogue;
use console_data::message::Data;
use console_data::message::Message;
use console_data::resource::Kind;
use console_data::resource::ObjectRef;
use console_data::saved_tabs::SavedTabs;
use console_data::saved_tabs::{ObjectFate, SavedRelation, SavedScope, SavedScreen, SavedTab, SavedView};
use console_data::store::{Change, Delta};
use console_operations::effect::{
    ConnectionRoute, FilesRoute, ImageContent, ImageScope, ImageTextRoute, LogRun, LogsRoute, Route,
    RowScope, TableRoute, TerminalPurpose,
};
use console_screens::contexts::Contexts;
use console_screens::drills::Drills;
use console_screens::edit::EditData;
use console_screens::faulty_screen::{FaultyScreen, PanicPoint};
use console_screens::forwards::Forwards;
use console_screens::help::Help;
use console_screens::journal::JournalScreen;
use console_screens::kinds::Kinds;

/// A console with a known cluster.
fn started() -> TestConsole {
    let mut stage = TestConsole::new(140, 40);
    stage.model.setup.config_dir = Some("/nowhere".into());
    let system = json!({"metadata": {"name": "kube-system", "uid": "c1"}});
    stage.feed(Delta::of::<Namespace>(vec![Change::Applied(objects([system]).remove(0))]));
    let mut kinds = builtin_kinds::kinds();
    kinds.push(widgets("widgets"));
    stage.model.update(Message::Catalogue(Catalogue::of(kinds)), stage.now);
    stage
}

fn kind(plural: &str) -> Kind {
    let mut kinds = builtin_kinds::kinds();
    kinds.push(widgets("widgets"));
    kinds.into_iter().find(|kind| *kind.resource.plural == *plural).expect(plural)
}

fn object(plural: &str, name: &str, uid: &str) -> ObjectRef {
    let kind = kind(plural);
    let namespace = kind.namespaced.then(|| "default".to_owned());
    ObjectRef { kind, namespace, name: name.to_owned(), uid: Some(uid.into()) }
}

/// One screen of each type, and whether it is restored.
fn one_of_each() -> Vec<(Screen, bool)> {
    let web = || object("pods", "web", "default-web");
    let deployment = || object("deployments", "shop", "d1");
    let get = Attributes {
        verb: "get".into(),
        group: String::new(),
        resource: "pods".into(),
        subresource: Some("log".into()),
        name: None,
        namespace: Some("default".into()),
    };
    let connection = ConnectionRoute { source: "default/web".into(), destination: "shop:80".into() };
    let owned = TableRoute::of(kind("pods")).only(RowScope::OwnedBy(deployment()));
    let image_text = ImageTextRoute {
        node: "node-1".into(),
        image: "redis:7".into(),
        content: ImageContent::Details,
        known: Vec::new(),
    };
    vec![
        (Overview::default().into(), false),
        (Help::new(Vec::new(), Vec::new(), Vec::new()).into(), false),
        (Forwards::default().into(), false),
        (FaultyScreen(PanicPoint::Drawing).into(), false),
        (Route::Table(owned).into(), true),
        (Route::Yaml(web()).into(), true),
        (Route::Edit(web()).into(), true),
        (Route::Files(FilesRoute { path: "/tmp".into(), apply: true }).into(), true),
        (Route::Dumps("/nowhere/screen-dumps".into()).into(), true),
        (Route::Dump("/nowhere/screen-dumps/pods.csv".into()).into(), false),
        (Route::Images(ImageScope::Node("node-1".into())).into(), true),
        (Route::ImageText(image_text).into(), false),
        (Route::Transfer(web(), None).into(), false),
        (JournalScreen::default().into(), true),
        (Kinds::default().into(), true),
        (Route::Describe(object("widgets", "w", "w1")).into(), true),
        (Route::Containers(web()).into(), true),
        (Route::from(LogsRoute::of(deployment(), LogRun::Current)).into(), true),
        (Route::Rollout(deployment()).into(), true),
        (Route::Drain(vec![object("nodes", "n1", "n1")]).into(), true),
        (Route::Explain(deployment()).into(), true),
        (Route::Pending(web()).into(), true),
        (Route::Connection(connection).into(), true),
        (Route::Controller(object("widgets", "deployment", "c")).into(), true),
        (Route::Access(AccessQuery::SubjectsWith(get, vec!["of default".into()])).into(), true),
        (Route::Tree(Some(kind("deployments"))).into(), true),
        (Route::Topology.into(), true),
        (Route::Terminal(web(), TerminalPurpose::Shell).into(), true),
        (Contexts::new(("podium".into(), "here".into()), None).into(), true),
        (Route::Versions(web()).into(), true),
        (Route::Timeline(web()).into(), true),
        (Drills::default().into(), true),
    ]
}

#[test]
fn each_screen_comes_back_or_says_why_it_does_not_con_17() {
    let named: BTreeSet<&str> = one_of_each().iter().map(|(screen, _)| screen.name()).collect();
    let all: BTreeSet<&str> = Screen::NAMES.iter().copied().collect();
    assert_eq!(named, all, "a new screen has to say here whether it comes back");
    for (screen, comes_back) in one_of_each() {
        let name = screen.name();
        let mut stage = started();
        stage.model.update(Message::SavedTabs(SavedTabs::default()), stage.now);
        let now = stage.now;
        stage.model.open(screen, now);
        let saved = stage.model.view_of(stage.model.top());
        if !comes_back {
            assert!(saved.is_err_and(|why| why.len() > 5), "{name} says why it does not come back");
            continue;
        }
        let saved = saved.unwrap_or_else(|why| panic!("{name}: {why}"));
        // A drain finds its nodes by name, and a controller has a new object.
        let (_, tabs) = stage.model.saved_tabs().expect("known by now");
        assert_eq!(tabs.tabs[0].views, std::slice::from_ref(&saved), "{name}");
        let text = serde_json::to_string(&tabs).unwrap();
        let tabs: SavedTabs = serde_json::from_str(&text).unwrap();
        let mut next = started();
        if name == "Drain" {
            let node = json!({"metadata": {"name": "n1", "uid": "n1"}});
            next.feed(Delta::of::<Node>(vec![Change::Reset(objects([node]))]));
        }
        let jobs = next.model.update(Message::SavedTabs(tabs), next.now);
        assert_eq!(next.model.top().1.name(), name);
        assert_eq!(next.model.view_of(next.model.top()).as_ref(), Ok(&saved), "{name}");
        assert!(!jobs.iter().any(|job| matches!(job, Job::Act(_))), "{name}: nothing acts: {jobs:?}");
        let slots: Vec<&str> = jobs
            .iter()
            .filter_map(|job| if let Job::Start(task) = job { Some(task.slot()) } else { None })
            .collect();
        for acts in ["session", "drain", "walk", "plan", "forward"] {
            assert!(!slots.contains(&acts), "{name}: {slots:?}");
        }
    }
}

fn tabs_of(view: SavedView) -> SavedTabs {
    SavedTabs { tabs: vec![SavedTab { views: vec![view], ..SavedTab::default() }], ..SavedTabs::default() }
}

fn saved_view(screen: SavedScreen, plural: &str, name: &str, uid: &str) -> SavedView {
    let kind = kind(plural);
    SavedView {
        screen,
        group: kind.resource.group.to_string(),
        plural: kind.resource.plural.to_string(),
        object: Some((Some("default".into()), name.into())),
        uid: Some(uid.into()),
        ..SavedView::default()
    }
}

/// Counts the jobs that check an object's identity.
fn count_lookups(jobs: &[Job]) -> usize {
    jobs.iter().filter(|job| matches!(job, Job::Start(task) if task.slot() == "kept")).count()
}

#[test]
fn a_deleted_or_replaced_object_is_reported_con_17() {
    // The stores have the object, so no request is sent.
    let mut stage = started();
    let jobs = stage.model.update(
        Message::SavedTabs(tabs_of(saved_view(SavedScreen::Pending, "pods", "web", "default-web"))),
        stage.now,
    );
    assert_eq!(count_lookups(&jobs), 0);
    assert!(!stage.screen().contains("the pod is gone"), "{}", stage.screen());

    let view = saved_view(SavedScreen::Explain, "pods", "web", "of-yesterday");
    let mut stage = started();
    let jobs = stage.model.update(Message::SavedTabs(tabs_of(view.clone())), stage.now);
    assert_eq!(count_lookups(&jobs), 1, "{jobs:?}");
    assert!(stage.screen().contains("Pod default/web is gone"), "that one is:\n{}", stage.screen());
    let id = stage.model.top().0;
    let another = Message::SavedObject(id, Box::new((view.clone(), ObjectFate::Is("default-web".into()))));
    let jobs = stage.model.update(another, stage.now);
    assert!(matches!(jobs.first(), Some(Job::Close(closed)) if *closed == id), "its tasks end: {jobs:?}");
    let screen = stage.screen();
    assert!(screen.contains("Pod default/web was deleted and recreated since the last run"), "{screen}");
    assert!(
        !screen.contains("is gone") && !screen.contains("was deleted since"),
        "it is of the one that is there:\n{screen}"
    );
    let again = stage.model.saved_tabs().expect("known").1;
    assert_eq!(again.tabs[0].views[0].uid.as_deref(), Some("default-web"));

    let mut stage = started();
    stage.model.update(Message::SavedTabs(tabs_of(view.clone())), stage.now);
    let id = stage.model.top().0;
    stage.model.update(Message::SavedObject(id, Box::new((view, ObjectFate::Deleted))), stage.now);
    assert!(stage.screen().contains("Pod default/web was deleted since the last run"), "{}", stage.screen());
}

#[test]
fn a_table_of_what_belongs_to_an_object_asks_for_that_object_con_17() {
    let pods = |uid: &str| {
        let mut stage = started();
        let deployment = object("deployments", "shop", uid);
        stage.model.update(Message::SavedTabs(SavedTabs::default()), stage.now);
        let now = stage.now;
        stage
            .model
            .open(Route::Table(TableRoute::of(kind("pods")).only(RowScope::OwnedBy(deployment))).into(), now);
        stage.model.saved_tabs().expect("known").1
    };
    let tabs = pods("d0");
    let view = tabs.tabs[0].views[0].clone();
    assert!(
        matches!(&view.only, SavedScope::Belonging(SavedRelation::Owned, of) if of.name == "shop"),
        "{view:?}"
    );
    let mut stage = started();
    let jobs = stage.model.update(Message::SavedTabs(tabs), stage.now);
    assert_eq!(count_lookups(&jobs), 1, "{jobs:?}");
    let id = stage.model.top().0;
    stage.model.update(Message::SavedObject(id, Box::new((view, ObjectFate::Is("d1".into())))), stage.now);
    let screen = stage.screen();
    assert!(
        screen.contains("Deployment default/shop was deleted and recreated since the last run"),
        "{screen}"
    );
    assert_eq!(stage.model.saved_tabs().expect("known").1, pods("d1"));
}

#[test]
fn typed_text_in_a_restored_editor_is_not_lost_con_17() {
    let view = saved_view(SavedScreen::Edit { unsaved: false }, "pods", "web", "of-yesterday");
    let mut stage = started();
    stage.model.update(Message::SavedTabs(tabs_of(view.clone())), stage.now);
    let id = stage.model.top().0;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}});
    stage.model.update(Message::Data(id, Data::new(EditData::Object(Box::new(pod)))), stage.now);
    stage.press("\"typed\"");
    let another = Message::SavedObject(id, Box::new((view, ObjectFate::Is("default-web".into()))));
    let jobs = stage.model.update(another, stage.now);
    assert!(!jobs.iter().any(|job| matches!(job, Job::Close(_))), "{jobs:?}");
    let screen = stage.screen();
    assert!(
        screen.contains("typed") && screen.contains("was deleted and recreated since the last run"),
        "{screen}"
    );
}
