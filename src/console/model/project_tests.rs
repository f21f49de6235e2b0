//! The view of a project that `podium dev` builds, and its banner (DEV-6).

use std::sync::Arc;

use super::tabs_tests::TestConsole;
use console_data::project::Project;

#[test]
fn the_project_is_the_first_view_and_its_failure_is_a_banner_dev_6() {
    let mut stage = TestConsole::new(100, 24);
    stage.press(": \"project\" enter");
    assert!(stage.screen().contains("builds no project in this cluster"), "{}", stage.screen());
    let project = Arc::new(Project::new("k8s".into(), "a=b".into(), "default".into()));
    stage.model.shared.project = Some(project.clone());
    let jobs = stage.model.open_project(stage.now);
    assert!(!jobs.is_empty(), "the view reads the project's lines");
    assert!(stage.screen().contains("k8s · builds and all pods"), "{}", stage.screen());
    project.set_failure(Some("app: the build failed\u{1b}[2J\nmore".into()));
    let shown = stage.screen();
    assert!(shown.contains("app: the build failed") && shown.contains(":project"), "{shown}");
    project.set_failure(None);
    assert!(!stage.screen().contains("the build failed"));
}
