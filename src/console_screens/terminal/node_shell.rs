//! A shell on a node: the dialog before, the pod that is created for it, and the removal of that pod.
//!
//! The pod belongs to a task that outlives the screen ([`console_operations::effect::Outbox::spawn_detached`]): a
//! screen closed while the pod is being created, and a console that exits, leave nothing behind. A pod left by a killed
//! console ends by itself ([`console_data::node_shell`]).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::oneshot;

use super::{Plan, TerminalData};
use console_data::access::Attributes;
use console_data::action::{error_text, execute};
use console_data::context::Context;
use console_data::node_shell::{self, CONTAINER, NodeShell};
use console_data::resource::ObjectRef;
use console_data::rows::node::is_ready;
use console_operations::dialog::{Field, Fields, Note};
use console_operations::effect::{Dialog, Effect, Outbox};
use console_operations::operations::node_shell::{fresh_pod, leftover_notice, make, remove, with_uid};
use console_operations::pane::SessionTarget;

/// Timeout of the permission check, and of each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Pauses in seconds between attempts to remove a pod; after the last attempt the pod is left, and a toast reports it.
const PAUSES: [u64; 7] = [0, 1, 2, 4, 8, 15, 30];

/// The server's refusal to create pods, once it is known.
type CreateDenial = Arc<OnceLock<String>>;

/// Shows the dialog, and checks the permission meanwhile.
pub(super) fn open_dialog(cx: &Context<'_>, node: &ObjectRef) -> Vec<Effect> {
    let denial = CreateDenial::default();
    let namespace = cx.node_shell.namespace.clone();
    let sink = Arc::clone(&denial);
    let task = Effect::task("may", move |out| async move {
        if let Err(why) = check_permission(out.client(), &namespace).await {
            // This task is the only writer of the cell.
            let _ = sink.set(why);
            out.data(TerminalData::Heard).await;
        }
    });
    vec![task, Effect::dialog(dialog(cx.node_shell, node, denial))]
}

fn dialog(settings: &NodeShell, node: &ObjectRef, denial: CreateDenial) -> Dialog {
    let mut fields = Fields::default();
    let image = fields.add(Field::text("image", &settings.image).hint("provides the shell's tools"));
    let namespace = fields.add(Field::text("namespace", &settings.namespace).hint("of the shell's pod"));
    let privileged = fields
        .add(Field::switch("privileged").on(settings.privileged).hint("with all of root's permissions"));
    let name = node.name.clone();
    let settings = settings.clone();
    Dialog::new(format!("Shell on {}", node.describe()), "Open", move |dialog, _| {
        let image = dialog.text(image).trim().to_owned();
        if image.is_empty() {
            return Err("the image is required, such as busybox".to_owned());
        }
        let namespace = dialog.text(namespace).trim().to_owned();
        if !node_shell::is_namespace(&namespace) {
            return Err(format!("invalid namespace name {namespace:?}"));
        }
        let privileged = dialog.is_on(privileged);
        let settings = NodeShell { image, namespace, privileged, ..settings.clone() };
        Ok(vec![Effect::send(TerminalData::Decided(plan(settings)))])
    })
    .line("Creates a pod with the node's processes and network, and its files at /host.")
    .line("The pod is removed with the shell, and ends by itself if the console is killed.")
    .fields(fields)
    .notes(move |_, cx| notes(cx, &name, &denial))
    .on_cancel(|_, _| vec![Effect::Back])
}

/// Returns the warnings in the dialog.
fn notes(cx: &Context<'_>, node: &str, denial: &CreateDenial) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(why) = denial.get() {
        notes.push(Note::Warning(why.clone()));
    }
    if let Some(node) = cx.stores.nodes().by_name("", node) {
        if !is_ready(node) {
            notes.push(Note::Warning("The node is not Ready: the pod may never start.".to_owned()));
        }
        if node_shell::is_of_podium(node) {
            notes.push(Note::Plain("This node's containers are processes of Podium's machine.".to_owned()));
        }
    }
    notes.extend(leftover_notice(cx.stores).map(Note::Plain));
    notes
}

/// Returns the plan for the shell; reopening the shell uses the same plan.
pub(super) fn plan(settings: NodeShell) -> Plan {
    let opening =
        SessionTarget::Created { container: CONTAINER.to_owned(), command: settings.command.clone() };
    Plan { opening, debug: None, on_node: Some(settings) }
}

/// Checks whether the user may create the pod; an error is the server's refusal. If the check fails, the creation
/// itself will report the error.
async fn check_permission(client: Client, namespace: &str) -> Result<(), String> {
    let attributes = Attributes {
        verb: "create".to_owned(),
        resource: "pods".to_owned(),
        namespace: Some(namespace.to_owned()),
        ..Attributes::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client);
    let answer =
        tokio::time::timeout(REQUEST_TIMEOUT, api.create(&PostParams::default(), &attributes.review())).await;
    let Ok(Ok(SelfSubjectAccessReview { status: Some(status), .. })) = answer else { return Ok(()) };
    if status.allowed {
        return Ok(());
    }
    let reason = status.reason.filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Err(format!("you may not create pods in {namespace}{reason}"))
}

/// Guard of a shell's pod; dropping it removes the pod.
#[derive(Debug)]
pub(super) struct ShellPodGuard {
    /// Closed when the guard is dropped, which lets the task remove the pod.
    _released: oneshot::Sender<()>,
}

/// Creates the pod, or returns why that failed.
pub(super) async fn hold(
    out: &Outbox,
    node: &ObjectRef,
    settings: &NodeShell,
) -> Result<(ObjectRef, ShellPodGuard), String> {
    check_permission(out.client(), &settings.namespace).await?;
    let pod = fresh_pod(&node.name, settings);
    let (release, released) = oneshot::channel();
    let (tell, reported) = oneshot::channel();
    out.spawn_detached(keep(out.clone(), node.name.clone(), settings.clone(), pod.clone(), tell, released));
    let made = reported.await.unwrap_or_else(|_| Err("the console is stopping".to_owned()));
    made.map(|pod| (pod, ShellPodGuard { _released: release }))
}

/// Creates the pod, waits until its guard is dropped, and removes it.
async fn keep(
    out: Outbox,
    node: String,
    settings: NodeShell,
    pod: ObjectRef,
    created: oneshot::Sender<Result<ObjectRef, String>>,
    released: oneshot::Receiver<()>,
) {
    let pod = match out.act(make(&node, &settings, &pod)).await {
        Ok(made) => with_uid(&pod, &made),
        Err(kube::Error::Api(refusal)) if refusal.code < 500 => {
            // The screen may be closed.
            let _ = created.send(Err(refusal.message));
            return;
        }
        // There was no response, so that the pod may exist.
        Err(error) => {
            let _ = created.send(Err(error_text(&error)));
            return remove_pod(&out, &pod).await;
        }
    };
    // If the receiver is gone, no guard exists, and the pod is removed at once.
    if created.send(Ok(pod.clone())).is_ok() {
        tokio::select! {
            _ = released => {}
            () = out.ending() => {}
        }
    }
    remove_pod(&out, &pod).await;
}

/// Removes a pod, with retries while the server does not respond.
async fn remove_pod(out: &Outbox, pod: &ObjectRef) {
    let action = remove(pod);
    let mut result = Ok(());
    for pause in PAUSES {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        let client = out.client();
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, execute(&client, &action.mutation)).await;
        let late = || kube::Error::Service(format!("nothing within {} s", REQUEST_TIMEOUT.as_secs()).into());
        result = match answer.unwrap_or_else(|_| Err(late())) {
            Ok(_) => Ok(()),
            // The pod was never created, is already removed, or another pod has its name now.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
            Err(error) => Err(error),
        };
        match &result {
            Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => break,
            Ok(()) => break,
            Err(_) => {}
        }
    }
    out.record(action, &result).await;
}
