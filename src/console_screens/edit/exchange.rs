//! The editor's requests: load, dry run, save. Each is a task that sends an [`EditData`].

use std::time::Duration;

use serde_json::Value;

use super::action;
use super::problem::{self, Problem};
use console_data::action::{WriteMode, error_text, execute, replace};
use console_data::changes::editable;
use console_data::drafts::Draft;
use console_data::resource::ObjectRef;
use console_operations::effect::{Effect, Outbox};
use console_toolkit::yaml_text;

/// Time without typing after which the text is checked by the server.
pub(crate) const PAUSE: Duration = Duration::from_millis(350);

/// Time without typing after which the draft is saved to disk.
const REST: Duration = Duration::from_secs(1);

/// Results of the screen's tasks.
#[derive(Debug)]
pub enum EditData {
    /// The object as the server returned it.
    Object(Box<Value>),
    /// The object could not be loaded.
    Failed(String),
    /// The text returned by `$EDITOR`.
    External(String),
    /// The result of the check of the text with this number.
    Checked(u64, CheckResult),
    /// A draft of an earlier edit that was not saved.
    Draft(Box<Draft>),
    /// No key was typed for a moment.
    Rested,
    /// The edit was saved.
    Saved,
    /// The edit was not saved.
    NotSaved(CheckResult),
}

/// The server's response to a text.
#[derive(Debug)]
pub enum CheckResult {
    /// The server accepts it.
    Good,
    /// The server rejects it.
    Wrong(Vec<Problem>),
    /// Another client changed the object first: its current version.
    Newer(Box<Value>),
}

pub(crate) fn load(target: &ObjectRef) -> Effect {
    let target = target.clone();
    Effect::task("load", move |out| async move {
        let loaded = match out.fetch(&target).await {
            Ok(object) => EditData::Object(Box::new(object)),
            Err(error) => EditData::Failed(error),
        };
        out.data(loaded).await;
    })
}

/// Reports that no key was typed for a moment; a later call replaces this one.
pub(crate) fn typing_pause() -> Effect {
    Effect::task("draft", move |out| async move {
        tokio::time::sleep(REST).await;
        out.data(EditData::Rested).await;
    })
}

/// Sends a dry run of the text after a pause; a later check replaces this one.
pub(crate) fn check(target: &ObjectRef, text: String, base: Value, number: u64, pause: Duration) -> Effect {
    let target = target.clone();
    Effect::task("check", move |out| async move {
        tokio::time::sleep(pause).await;
        let answer = match typed(&target, &text) {
            Ok(typed) => {
                let sent =
                    replace(&out.client(), &target, &editable::whole(&typed, &base), WriteMode::DryRun).await;
                check_result(&out, &target, &text, sent.map(|_| ())).await
            }
            Err(problem) => CheckResult::Wrong(vec![problem]),
        };
        out.data(EditData::Checked(number, answer)).await;
    })
}

pub(crate) fn save(target: &ObjectRef, text: String, base: Value) -> Effect {
    let target = target.clone();
    Effect::task("save", move |out| async move {
        let loaded = match typed(&target, &text) {
            Ok(typed) => {
                let action = action::save(&target, &typed, &base);
                let result = execute(&out.client(), &action.mutation).await.map(|_| ());
                let overtaken = matches!(&result, Err(kube::Error::Api(status)) if status.code == 409);
                // If another client changed the object first, the save continues with a merge: it has neither failed
                // nor succeeded yet.
                if !overtaken {
                    out.record(action, &result).await;
                }
                match result {
                    Ok(()) => EditData::Saved,
                    failed => EditData::NotSaved(check_result(&out, &target, &text, failed).await),
                }
            }
            Err(problem) => EditData::NotSaved(CheckResult::Wrong(vec![problem])),
        };
        out.data(loaded).await;
    })
}

/// Parses the text as an object, and reports problems that need no server to find.
pub(crate) fn typed(target: &ObjectRef, text: &str) -> Result<Value, Problem> {
    let value = yaml_text::read(text).map_err(|(line, text)| Problem { line, text })?;
    let name = value.pointer("/metadata/name").and_then(Value::as_str);
    if name != Some(&target.name) {
        let line = problem::line_of(text, "metadata.name");
        return Err(Problem { line, text: format!("metadata.name: must stay {}", target.name) });
    }
    Ok(value)
}

async fn check_result(
    out: &Outbox,
    target: &ObjectRef,
    text: &str,
    sent: Result<(), kube::Error>,
) -> CheckResult {
    match sent {
        Ok(()) => CheckResult::Good,
        Err(kube::Error::Api(status)) if status.code == 409 => match out.fetch(target).await {
            Ok(theirs) => CheckResult::Newer(Box::new(theirs)),
            Err(error) => CheckResult::Wrong(vec![Problem::general(error)]),
        },
        Err(kube::Error::Api(status)) if status.code == 404 => {
            CheckResult::Wrong(vec![Problem::general(format!(
                "{}; it was deleted meanwhile: ctrl-o keeps the text in your editor, esc goes back",
                status.message
            ))])
        }
        Err(kube::Error::Api(status)) => CheckResult::Wrong(problem::of_status(&status, text)),
        Err(error) => CheckResult::Wrong(vec![Problem::general(error_text(&error))]),
    }
}
