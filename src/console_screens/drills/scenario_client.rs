//! The list of drills, their state, and the changes that a player makes.

use std::sync::LazyLock;

use extension::scenario::{AllScenarioRuns, RUNS_NAME, RUNS_NAMESPACE, Scenario, ScenarioRuns};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use manifest::drills::{DRILLS, Drill};
use serde_json::{Value, json};

use console_data::action::{Action, Mutation, PatchKind, error_text};
use console_data::decoded::TypedApi;
use console_data::resource::{Kind, ObjectRef, Uid};
use console_operations::effect::Outbox;

/// A drill, or another scenario of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) title: String,
    /// The manifest, if the drill ships with Podium.
    pub(super) manifest: Option<Value>,
    /// The scenario object of the last or the current run.
    pub(super) played: Option<Scenario>,
    /// Earlier runs; `None` if there are none or they are unknown.
    pub(super) runs: Option<ScenarioRuns>,
}

/// The drills that ship with Podium, without any runs.
static SHIPPED: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let read = |drill: &Drill| {
        // A test ensures that each manifest parses.
        let manifest: Value = manifest::from_yaml(drill.text).ok()?;
        let title = manifest["spec"]["title"].as_str().unwrap_or_default().to_owned();
        Some(Row { name: drill.name.into(), title, manifest: Some(manifest), played: None, runs: None })
    };
    DRILLS.iter().filter_map(read).collect()
});

/// Results of the screen's task.
#[derive(Debug)]
pub enum DrillsData {
    /// The scenarios of the cluster, and earlier runs or why they are unknown.
    Seen(Vec<Scenario>, Result<AllScenarioRuns, String>),
    /// The server does not serve scenarios, or the user may not read them.
    NotServed,
    /// The request failed, with this reason.
    Failed(String),
}

/// Requests the scenarios.
pub(super) async fn list_scenarios(out: &Outbox) -> DrillsData {
    let scenarios = TypedApi::<Scenario>::all(out.client());
    match scenarios.list(&ListParams::default()).await {
        Ok(list) => DrillsData::Seen(list, runs(out).await),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => DrillsData::NotServed,
        Err(error) => DrillsData::Failed(error_text(&error)),
    }
}

async fn runs(out: &Outbox) -> Result<AllScenarioRuns, String> {
    let maps = TypedApi::<ConfigMap>::namespaced(out.client(), RUNS_NAMESPACE);
    let map = maps.get_opt(RUNS_NAME).await.map_err(|error| error_text(&error))?;
    Ok(map.and_then(|map| map.data).as_ref().map(AllScenarioRuns::of_data).unwrap_or_default())
}

/// Returns the drills that ship with Podium, then other scenarios, each with its runs.
pub(super) fn rows(seen: &[Scenario], runs: &AllScenarioRuns) -> Vec<Row> {
    let of = |name: &str| seen.iter().find(|one| one.metadata.name.as_deref() == Some(name)).cloned();
    let before = |name: &str| runs.of(name).cloned();
    let shipped = SHIPPED.iter();
    let shipped = shipped.map(|row| Row { played: of(&row.name), runs: before(&row.name), ..row.clone() });
    let mut rows: Vec<Row> = shipped.collect();
    for other in seen {
        let name = other.metadata.name.clone().unwrap_or_default();
        if !rows.iter().any(|row| row.name == name) {
            let title = other.spec.title.clone();
            let runs = before(&name);
            rows.push(Row { name, title, manifest: None, played: Some(other.clone()), runs });
        }
    }
    rows
}

/// Returns a briefing outside of a run: `the node $(node) is` becomes `the node (chosen at its start) is`.
fn without_variables(text: &str) -> String {
    let (mut rest, mut plain) = (text, String::new());
    while let Some((before, after)) = rest.split_once("$(") {
        let Some((_, after)) = after.split_once(')') else { break };
        plain.push_str(before);
        plain.push_str("(chosen at its start)");
        rest = after;
    }
    plain + rest
}

impl Row {
    /// Returns the briefing of the current run, or of the manifest, one line for each paragraph.
    pub(super) fn briefing(&self) -> Vec<String> {
        let played = self.played.as_ref();
        let briefing = played.and_then(|one| one.status.as_ref()?.briefing.clone());
        let written = self.manifest.as_ref().and_then(|manifest| manifest["spec"]["briefing"].as_str());
        let written = written.or_else(|| played.map(|one| one.spec.briefing.as_str()));
        // Variables get their values when the drill starts.
        let text = match briefing {
            Some(briefing) => briefing,
            None => without_variables(written.unwrap_or_default()),
        };
        text.trim().split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect()
    }

    pub(super) fn is_playing(&self) -> bool {
        self.played.as_ref().is_some_and(|one| !one.phase().has_ended())
    }

    fn target(&self) -> ObjectRef {
        let kind = Kind::of_type::<Scenario>();
        let uid = self.played.as_ref().and_then(|one| one.metadata.uid.as_deref()).map(Uid::from);
        ObjectRef { kind, namespace: None, name: self.name.clone(), uid }
    }

    fn action(&self, title: String, kubectl: String, mutation: Mutation) -> Action {
        Action::new(&self.target(), title, kubectl, mutation)
    }

    /// Returns the action that starts the drill; `None` without a manifest.
    pub(super) fn begin(&self) -> Option<Action> {
        let body = self.manifest.clone()?;
        let mutation = Mutation::Create { target: ObjectRef { uid: None, ..self.target() }, body };
        Some(self.action(
            format!("begin drill {}", self.name),
            format!("podium drill run {}", self.name),
            mutation,
        ))
    }

    /// Creates the action that deletes the scenario of the last run, which prevents another run.
    pub(super) fn forget(&self) -> Action {
        self.action(
            format!("remove the last run of drill {}", self.name),
            format!("kubectl delete scenario {}", self.name),
            Mutation::delete(&self.target()),
        )
    }

    fn patch(&self, title: &str, kubectl: String, spec: &Value) -> Action {
        let mutation = Mutation::patch(&self.target(), PatchKind::Merge, json!({"spec": spec}));
        self.action(format!("{title} {}", self.name), kubectl, mutation)
    }

    /// Returns the action that requests the next hint; `None` if there are no more.
    pub(super) fn request_hint(&self) -> Option<Action> {
        let one = self.played.as_ref()?;
        let requested = one.revealed_hints().len() + 1;
        (requested <= one.spec.hints.len()).then(|| {
            let spec = json!({"hintsAsked": requested});
            self.patch("show the next hint of", format!("podium drill hint {}", self.name), &spec)
        })
    }

    /// Creates the action that gives up.
    pub(super) fn stop(&self) -> Action {
        self.patch("stop drill", format!("podium drill stop {}", self.name), &json!({"stop": true}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_briefing_shows_no_placeholders_before_the_drill_begins_fault_2() {
        for (text, plain) in [
            ("empty $(node) of it", "empty (chosen at its start) of it"),
            ("$(a)$(b)", "(chosen at its start)(chosen at its start)"),
            ("costs $5 (or more)", "costs $5 (or more)"),
            ("an open $(one", "an open $(one"),
            ("", ""),
        ] {
            assert_eq!(without_variables(text), plain, "{text}");
        }
        for row in rows(&[], &AllScenarioRuns::default()) {
            assert!(!row.briefing().join("\n").contains("$("), "{}", row.name);
        }
    }

    #[test]
    fn a_run_that_another_client_started_is_not_removed_fault_2() {
        let played = json!({"metadata": {"name": "own", "uid": "u1"}, "spec": {"steps": []}});
        let played: Scenario = serde_json::from_value(played).unwrap();
        let rows = rows(&[played], &AllScenarioRuns::default());
        let Mutation::Delete { params, .. } = rows.last().unwrap().forget().mutation else {
            panic!("it deletes")
        };
        assert_eq!(params.preconditions.and_then(|required| required.uid).as_deref(), Some("u1"));
    }
}
