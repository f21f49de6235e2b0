//! CronJobs: run one now (`kubectl create job --from`), suspend and resume.

use rand::RngExt as _;
use serde_json::{Value, json};

use crate::dialog::{Field, Fields};
use crate::effect::{Dialog, Effect};
use console_data::action::{Action, Mutation, PatchKind};
use console_data::resource::ObjectRef;
use console_data::workloads::Workload;
use console_toolkit::toast::Toast;

/// The maximum length of a Job's name, because it becomes a label of the Job's pods.
const LONGEST_NAME: usize = 63;
/// The maximum length of the CronJob's name within the name of a manual Job.
const MAX_PREFIX: usize = 48;

/// Creates the dialog for running a Job now, with its name.
pub fn trigger_dialog(target: ObjectRef) -> Dialog {
    let suffix: u32 = rand::rng().random_range(0x1000..0xffff);
    let head: String = target.name.chars().take(MAX_PREFIX).collect();
    let proposed = format!("{}-manual-{suffix:x}", head.trim_end_matches(['-', '.']));
    let mut fields = Fields::default();
    let name = fields.add(Field::text("job", proposed));
    Dialog::new(format!("Trigger {}", target.describe()), "Trigger", move |dialog, _| {
        let name = dialog.text(name).trim().to_owned();
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Err(format!("a Job name has 1 to {LONGEST_NAME} characters"));
        }
        let target = target.clone();
        Ok(vec![Effect::task("trigger", move |out| async move {
            match out.fetch(&target).await {
                // The action itself reports its result.
                Ok(cron_job) => drop(out.act(trigger(&target, &cron_job, &name)).await),
                Err(error) => out.toast(Toast::failed(format!("{}: {error}", target.describe()))).await,
            }
        })])
    })
    .line("Creates a Job from its template now, regardless of its schedule.")
    .fields(fields)
}

/// Creates the action that creates the Job as kubectl does: from the template, owned by the CronJob, marked as manual.
/// Its undo deletes the Job.
fn trigger(target: &ObjectRef, cron_job: &Value, name: &str) -> Action {
    let template = cron_job.pointer("/spec/jobTemplate").cloned().unwrap_or_default();
    let mut annotations = template.pointer("/metadata/annotations").cloned().unwrap_or_else(|| json!({}));
    annotations["cronjob.kubernetes.io/instantiate"] = json!("manual");
    let body = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": target.namespace,
            "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
            "annotations": annotations,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": target.name,
                "uid": cron_job.pointer("/metadata/uid").cloned().unwrap_or_default(), "controller": true}],
        },
        "spec": template.get("spec").cloned().unwrap_or_default(),
    });
    let job = ObjectRef {
        kind: Workload::Job.kind(),
        namespace: target.namespace.clone(),
        name: name.to_owned(),
        uid: None,
    };
    let namespace = target.kubectl_namespace();
    let delete = Action::new(
        &job,
        format!("delete {}", job.describe()),
        format!("kubectl delete job {name}{namespace}"),
        Mutation::delete(&job),
    );
    Action::new(
        &job,
        format!("trigger {} as {name}", target.describe()),
        format!("kubectl create job {name} --from=cronjob/{}{namespace}", target.name),
        Mutation::create(&job, body),
    )
    .undone_by(delete)
}

/// Suspends running CronJobs, and resumes suspended ones, according to their state on the server.
pub fn suspend(targets: &[ObjectRef]) -> Effect {
    let targets = targets.to_vec();
    Effect::task("suspend", move |out| async move {
        for target in targets {
            match out.fetch(&target).await {
                Ok(cron_job) => {
                    let suspended = cron_job.pointer("/spec/suspend") == Some(&Value::Bool(true));
                    // The action itself reports its result.
                    drop(out.act(set_suspend(&target, !suspended)).await);
                }
                Err(error) => out.toast(Toast::failed(format!("{}: {error}", target.describe()))).await,
            }
        }
    })
}

fn set_suspend(target: &ObjectRef, suspended: bool) -> Action {
    let one = |suspended: bool| {
        let verb = if suspended { "suspend" } else { "resume" };
        let body = json!({"spec": {"suspend": suspended}});
        Action::new(
            target,
            format!("{verb} {}", target.describe()),
            format!("kubectl patch cronjob/{}{} -p '{body}'", target.name, target.kubectl_namespace()),
            Mutation::patch(target, PatchKind::Merge, body),
        )
    };
    one(suspended).undone_by(one(!suspended))
}

#[cfg(test)]
mod tests {
    use kube::api::PropagationPolicy;

    use super::*;

    fn target() -> ObjectRef {
        let kind = Workload::CronJob.kind();
        ObjectRef { kind, namespace: Some("shop".into()), name: "nightly".into(), uid: None }
    }

    #[test]
    fn a_job_by_hand_is_as_kubectl_makes_it_con_16() {
        let cron_job = json!({"metadata": {"uid": "u1"}, "spec": {"schedule": "0 3 * * *", "jobTemplate": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"template": {"spec": {"restartPolicy": "Never"}}}}}});
        let action = trigger(&target(), &cron_job, "now");
        assert_eq!(action.kubectl, "kubectl create job now --from=cronjob/nightly -n shop");
        let Mutation::Create { body, .. } = &action.mutation else { panic!("it makes a Job") };
        assert_eq!(
            body,
            &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "now", "namespace": "shop",
                "labels": {"a": "b"}, "annotations": {"c": "d", "cronjob.kubernetes.io/instantiate": "manual"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u1",
                    "controller": true}]},
                "spec": {"template": {"spec": {"restartPolicy": "Never"}}}})
        );
        let delete = action.inverse.unwrap();
        assert_eq!(delete.kubectl, "kubectl delete job now -n shop");
        let Mutation::Delete { params, .. } = &delete.mutation else { panic!("it deletes the Job") };
        assert_eq!(params.propagation_policy, Some(PropagationPolicy::Background), "with the Job's pods");
        let suspend = set_suspend(&target(), true);
        assert_eq!(suspend.title, "suspend CronJob shop/nightly");
        assert_eq!(suspend.inverse.unwrap().title, "resume CronJob shop/nightly");
    }
}
