//! Decisions as tables: a Job, its pods in a few words each, and the resulting actions.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use serde_json::{Value, json};

use super::back_off::BackOff;
use super::counts::{Counts, FAILURE_COUNT};
use super::manage::{self, Action};
use super::outcome::ending;
use super::track;
use super::view::{Member, View};
use base::backoff::BackoffPolicy;
use object::SharedObject;
use object::job::{COMPLETION_INDEX, TRACKING_FINALIZER};

const NOW: &str = "2026-11-21T01:00:00Z";

/// Parses a pod from `name phase [i=INDEX] [failures=N] [going] [loose] [ready] [42]`: loose has no finalizer.
fn pod(text: &str) -> Member {
    let words: Vec<&str> = text.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let value = |key: &str| words.iter().find_map(|w| w.strip_prefix(key));
    let mut annotations = json!({});
    if let Some(index) = value("i=") {
        annotations[COMPLETION_INDEX] = index.into();
    }
    if let Some(failures) = value("failures=") {
        annotations[FAILURE_COUNT] = failures.into();
    }
    let code = if has("42") { 42 } else { i32::from(words[1] == "Failed") };
    let ended = json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "finishedAt": "2026-11-21T00:59:55Z"}}}]);
    let ready = json!([{"type": "Ready", "status": if has("ready") { "True" } else { "False" }}]);
    let pod = json!({
        "metadata": {"name": words[0], "namespace": "default", "uid": words[0], "annotations": annotations,
            "finalizers": if has("loose") { json!([]) } else { json!([TRACKING_FINALIZER]) },
            "deletionTimestamp": has("going").then_some(NOW)},
        "spec": {"nodeName": "n", "containers": []},
        "status": {"phase": words[1], "conditions": ready, "containerStatuses": ended}});
    Member::new(SharedObject::from_value(serde_json::from_value(pod).unwrap()))
}

fn job(spec: &Value, status: &Value) -> Job {
    let mut job = json!({"metadata": {"name": "j", "uid": "j"}, "spec": {"backoffLimit": 6, "parallelism": 1,
        "podReplacementPolicy": "TerminatingOrFailed", "template": {}}, "status": status});
    json_patch::merge(&mut job["spec"], spec);
    serde_json::from_value(job).unwrap()
}

/// Evaluates a Job with these pods.
fn judge<T>(
    spec: &Value,
    status: &Value,
    pods: &[&str],
    judge: impl FnOnce(&View<'_>, &Counts<'_>) -> T,
) -> T {
    let job = job(spec, status);
    let members: Vec<Member> = pods.iter().map(|text| pod(text)).collect();
    let spec = job.spec.as_ref().unwrap();
    let view = View { job: &job, spec, members: &members, now: NOW.parse().unwrap() };
    judge(&view, &Counts::of(&view))
}

fn next(spec: &Value, status: &Value, pods: &[&str]) -> String {
    judge(spec, status, pods, |view, counts| {
        let policy = BackoffPolicy { initial: Duration::from_secs(10), max: Duration::from_mins(6) };
        let times = |members: &[&Member]| {
            members.iter().map(|m| super::back_off::ended_at(&m.pod)).collect::<Vec<_>>().into_iter()
        };
        let back_off = BackOff::default().after(times(&counts.new_succeeded), times(&counts.new_failed));
        match manage::next(view, counts, back_off, policy) {
            Action::Nothing => "nothing".into(),
            Action::Wait(delay) => format!("wait {}", delay.as_secs()),
            Action::Delete(pods) => {
                let mut names: Vec<&str> = pods.iter().map(SharedObject::name).collect();
                names.sort_unstable();
                format!("delete {}", names.join(" "))
            }
            Action::Create(indexes, later) => {
                let shown = |index: &Option<i32>| index.map_or("-".into(), |i| i.to_string());
                let list: Vec<String> = indexes.iter().map(shown).collect();
                let later = later.map_or(String::new(), |d| format!(" then {}", d.as_secs()));
                format!("create {}{later}", list.join(" "))
            }
        }
    })
}

#[test]
fn a_job_has_as_many_pods_as_it_needs_job_1() {
    let indexed = |more: Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 3});
        json_patch::merge(&mut spec, &more);
        spec
    };
    let three = json!({"completions": 5, "parallelism": 3});
    let limited = json!({"backoffLimitPerIndex": 2});
    let none = json!({});
    for (spec, status, pods, expected) in [
        (json!({"completions": 1}), none.clone(), &[][..], "create -"),
        (three.clone(), none.clone(), &["a Running"], "create - -"),
        (three.clone(), json!({"succeeded": 3}), &["a Running"], "create -"),
        (three.clone(), json!({"succeeded": 4}), &["a Running"], "nothing"),
        (three.clone(), json!({"succeeded": 4}), &["a Running ready", "b Running"], "delete b"),
        (three.clone(), none.clone(), &["a Failed", "b Running"], "wait 5"),
        (three.clone(), none.clone(), &["a Failed loose", "b Running"], "create - -"),
        (three.clone(), none.clone(), &["a Running going"], "wait 5"),
        (three.clone(), none.clone(), &["a Running loose", "b Running"], "delete a"),
        (json!({"parallelism": 3}), none.clone(), &["a Running"], "create - -"),
        (json!({"parallelism": 3}), none.clone(), &["a Running", "b Succeeded"], "nothing"),
        (json!({"completions": 5, "parallelism": 0}), none.clone(), &["a Running"], "delete a"),
        (json!({"completions": 5, "suspend": true}), none.clone(), &["a Running", "b Succeeded"], "delete a"),
        (
            json!({"completions": 2, "parallelism": 2, "podReplacementPolicy": "Failed"}),
            none.clone(),
            &["a Running going"],
            "create -",
        ),
        (indexed(none.clone()), none.clone(), &[], "create 0 1 2"),
        (
            indexed(none.clone()),
            json!({"completedIndexes": "0,2", "succeeded": 2}),
            &["a Running i=1"],
            "create 3",
        ),
        (indexed(none.clone()), none.clone(), &["a Running i=1", "b Running i=1 ready"], "delete a"),
        (indexed(none.clone()), none.clone(), &["a Running i=4", "b Running", "c Running i=0"], "delete a b"),
        (
            indexed(json!({"podReplacementPolicy": "Failed"})),
            none.clone(),
            &["a Running i=0 going"],
            "create 1 2",
        ),
        (indexed(limited.clone()), none.clone(), &["a Failed i=0 failures=0"], "create 1 2 then 5"),
        (
            indexed(limited.clone()),
            json!({"completedIndexes": "1-3"}),
            &["a Failed i=0 failures=1"],
            "wait 15",
        ),
        (indexed(limited), none, &["a Failed i=0 failures=2", "b Running i=1"], "create 2 3"),
    ] {
        assert_eq!(next(&spec, &status, pods), expected, "{spec} {status} {pods:?}");
    }
}

#[test]
fn a_job_ends_for_a_reason_job_1() {
    let status = json!({"startTime": "2026-11-21T00:58:00Z"});
    let with_condition = |type_: &str, reason: &str| json!({"conditions": [{"type": type_, "status": "True", "reason": reason, "message": "m"}]});
    let policy = json!({"podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]}, "backoffLimit": 0});
    let indexed = |limit: i32, most: Value| {
        json!({"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": limit,
            "maxFailedIndexes": most, "backoffLimit": i32::MAX})
    };
    for (spec, status, pods, expected) in [
        (json!({"completions": 1}), status.clone(), &["a Running"][..], "-"),
        (json!({"completions": 1}), status.clone(), &["a Succeeded"], "-"),
        (json!({"backoffLimit": 1}), status.clone(), &["a Failed", "b Running"], "-"),
        (json!({"backoffLimit": 1}), json!({"failed": 1}), &["a Failed"], "BackoffLimitExceeded"),
        (
            json!({"backoffLimit": 1}),
            json!({"failed": 1, "uncountedTerminatedPods": {"failed": ["a"]}}),
            &["a Failed"],
            "BackoffLimitExceeded",
        ),
        (json!({"backoffLimit": 0}), status.clone(), &["a Running going"], "BackoffLimitExceeded"),
        (json!({"activeDeadlineSeconds": 121}), status.clone(), &["a Running"], "-"),
        (
            json!({"activeDeadlineSeconds": 120, "backoffLimit": 0}),
            status.clone(),
            &["a Failed"],
            "DeadlineExceeded",
        ),
        (json!({"activeDeadlineSeconds": 120, "suspend": true}), status.clone(), &[], "-"),
        (policy.clone(), status.clone(), &["a Failed"], "-"),
        (policy, status.clone(), &["a Failed", "b Failed 42"], "PodFailurePolicy"),
        (indexed(0, json!(null)), status.clone(), &["a Failed i=0"], "-"),
        (indexed(0, json!(null)), status.clone(), &["a Failed i=0", "b Succeeded i=1"], "FailedIndexes"),
        (indexed(0, json!(0)), status.clone(), &["a Failed i=0"], "MaxFailedIndexesExceeded"),
        (indexed(1, json!(0)), status.clone(), &["a Failed i=0"], "-"),
        // A decided end does not change.
        (json!({}), with_condition("FailureTarget", "DeadlineExceeded"), &[], "DeadlineExceeded"),
        (
            json!({"backoffLimit": 0}),
            with_condition("SuccessCriteriaMet", "SuccessPolicy"),
            &["a Failed"],
            "SuccessPolicy",
        ),
    ] {
        let reason = judge(&spec, &status, pods, |view, counts| {
            ending(view, counts).map_or("-".to_string(), |ending| ending.reason)
        });
        assert_eq!(reason, expected, "{spec} {status} {pods:?}");
    }
}

#[test]
fn an_end_is_noted_before_its_pod_is_let_go_job_1() {
    let tracked = |spec: &Value, status: &Value, pods: &[&str]| {
        judge(spec, status, pods, |view, counts| {
            let mut status: JobStatus = view.job.status.clone().unwrap();
            let decided = ending(view, counts);
            let result = track::track_finished_pods(view, counts, decided.as_ref(), &mut status);
            let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
            let list = |uids: Option<Vec<String>>| uids.unwrap_or_default().join(" ");
            let released: Vec<&str> = result.release.iter().map(SharedObject::name).collect();
            format!(
                "+{} -{} #{} free {}",
                list(uncounted.succeeded),
                list(uncounted.failed),
                status.completed_indexes.unwrap_or_default(),
                released.join(" ")
            )
        })
    };
    let indexed = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4});
    let mut limited = indexed.clone();
    limited["backoffLimitPerIndex"] = json!(1);
    let none = json!({});
    for (spec, status, pods, expected) in [
        (none.clone(), none.clone(), &["a Succeeded", "b Failed", "c Running"][..], "+a -b # free a b"),
        (none.clone(), none.clone(), &["a Succeeded loose", "b Failed loose"], "+ - # free "),
        (
            none.clone(),
            json!({"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]}}),
            &["a Succeeded", "b Failed"],
            "+a -b # free a b",
        ),
        // A pod counted as failed when it was deleted has not succeeded after all.
        (
            none.clone(),
            json!({"uncountedTerminatedPods": {"failed": ["a"]}}),
            &["a Succeeded going"],
            "+ -a # free a",
        ),
        (json!({"backoffLimit": 0}), none.clone(), &["a Failed", "b Running"], "+ -a b # free a b"),
        (
            indexed.clone(),
            none.clone(),
            &["a Succeeded i=1", "b Succeeded i=9", "c Failed i=2"],
            "+ -c #1 free a c b",
        ),
        (indexed, json!({"completedIndexes": "1"}), &["a Succeeded i=1"], "+ - #1 free a"),
        // First its replacement must take over its counts.
        (limited.clone(), none.clone(), &["a Failed i=0"], "+ - # free "),
        (limited, none, &["a Failed i=0", "b Running i=0"], "+ -a # free a"),
    ] {
        assert_eq!(tracked(&spec, &status, pods), expected, "{spec} {status} {pods:?}");
    }
}
