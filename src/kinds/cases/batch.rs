//! Jobs and CronJobs.

use super::*;

const SPEC: &str = "template: {spec: {restartPolicy: Never, initContainers: [{name: i, image: i}], containers: [{name: c, image: i}]}}";

/// Reads a Job and gives it its generated selector.
fn job(text: &str) -> Object {
    let mut job = object(Kind::Job, text);
    job.meta_mut().uid = Some("1a2b".into());
    built_in(Kind::Job).prepare_for_create(&mut job);
    job
}

fn with(rest: &str) -> String {
    format!("spec:\n  {SPEC}\n  {}", rest.replace('\n', "\n  "))
}

/// Checks the errors of new Jobs with these fields in their spec.
fn check_jobs(table: &str) {
    let fields = with("…");
    let template = Template::new(Kind::Job, &fields, "spec");
    for case in read_cases(table) {
        let errors = messages(&validate_create(&job(&template.fill(&case.text))));
        assert_eq!(errors, template.expected(&case), "{case:?}");
    }
}

#[test]
fn a_jobs_numbers_fit_its_completion_mode_job_1() {
    check_jobs(
        r#"
<empty>
completionMode: Indexed\ncompletions: 3
parallelism: -1\ncompletions: -2\nactiveDeadlineSeconds: -3\nbackoffLimit: -4\nttlSecondsAfterFinished: -5
  ! .parallelism: Invalid value: -1: must be greater than or equal to 0
  ! .completions: Invalid value: -2: must be greater than or equal to 0
  ! .activeDeadlineSeconds: Invalid value: -3: must be greater than or equal to 0
  ! .backoffLimit: Invalid value: -4: must be greater than or equal to 0
  ! .ttlSecondsAfterFinished: Invalid value: -5: must be greater than or equal to 0
completionMode: Sorted
  ! .completionMode: Unsupported value: "Sorted": supported values: "NonIndexed", "Indexed"
completionMode: Indexed\nparallelism: 2
  ! .completions: Required value: when completion mode is Indexed
completionMode: Indexed\ncompletions: 2\nparallelism: 100001\nbackoffLimitPerIndex: 1\nmaxFailedIndexes: 3
  ! .parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed
  ! .maxFailedIndexes: Invalid value: 3: must be less than or equal to completions
completionMode: Indexed\ncompletions: 100001\nparallelism: 10001\nbackoffLimitPerIndex: 1
  ! .maxFailedIndexes: Required value: must be specified when completions is above 100000
  ! .parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index
backoffLimitPerIndex: 1\nmaxFailedIndexes: 1
  ! .backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode
  ! .maxFailedIndexes: Invalid value: 1: requires indexed completion mode
completionMode: Indexed\ncompletions: 2\nmaxFailedIndexes: 1
  ! .backoffLimitPerIndex: Required value: when maxFailedIndexes is specified
podReplacementPolicy: Never
  ! .podReplacementPolicy: Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed"
managedBy: me
  ! .managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")
managedBy: acme.io/foo
"#,
    );
    let long = format!(
        "metadata: {{name: {}}}\n{}",
        "x".repeat(61),
        with("completionMode: Indexed\ncompletions: 12")
    );
    assert_eq!(
        messages(&validate_create(&job(&long))),
        [format!(
            "metadata.name: Invalid value: \"{0}\": will not able to create pod with invalid DNS label: {0}-11",
            "x".repeat(61)
        )]
    );
}

#[test]
fn jobs_run_to_an_end_and_have_a_selector_of_their_own_job_1() {
    let with_policy = |policy: &str| {
        format!("spec: {{template: {{spec: {{{policy} containers: [{{name: c, image: i}}]}}}}}}")
    };
    let required = "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"";
    for (policy, expected) in
        [("", &[required][..]), ("restartPolicy: Always,", &[required]), ("restartPolicy: OnFailure,", &[])]
    {
        assert_eq!(messages(&validate_create(&job(&with_policy(policy)))), expected, "{policy}");
    }
    let labelled = |selector: &str, labels: &str| {
        job(&format!(
            "spec:\n  {selector}\n  template: {{metadata: {{labels: {labels}}}, spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}"
        ))
    };
    assert_eq!(
        messages(&validate_create(&labelled(
            "manualSelector: true\n  selector: {matchLabels: {a: b}}",
            "{a: b}"
        ))),
        [""; 0]
    );
    assert_eq!(
        messages(&validate_create(&labelled(
            "manualSelector: true\n  selector: {matchLabels: {a: b}}",
            "{a: c}"
        ))),
        [
            "spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`"
        ]
    );
    assert_eq!(
        messages(&validate_create(&labelled("manualSelector: true", "{a: c}")))[0],
        "spec.selector: Required value"
    );
    let wrong = messages(&validate_create(&labelled("", "{job-name: other}")));
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with("spec.template.metadata.labels[job-name]: Invalid value: {"), "{wrong:?}");
    assert!(wrong[0].ends_with(": must be 'x'"), "{wrong:?}");
    let wrong = messages(&validate_create(&labelled("selector: {matchLabels: {a: b}}", "{a: b}")));
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].ends_with("`selector` not auto-generated"), "{wrong:?}");
}

#[test]
fn a_new_job_gets_its_selector_and_labels_job_1() {
    let given = job(&format!("spec: {{{SPEC}}}")).to_value();
    let labels = json!({"batch.kubernetes.io/controller-uid": "1a2b", "controller-uid": "1a2b",
        "batch.kubernetes.io/job-name": "x", "job-name": "x"});
    assert_eq!(given["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(given["metadata"]["labels"], labels);
    assert_eq!(
        given["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "1a2b"}})
    );
    for (field, expected) in [
        ("completions", json!(1)),
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        assert_eq!(given["spec"][field], expected, "{field}");
    }
    let queue = job(&format!("spec: {{parallelism: 3, {SPEC}}}")).to_value();
    assert_eq!(queue["spec"]["completions"], Value::Null, "a work queue has no number");
    let cron =
        object(Kind::CronJob, &format!("spec: {{schedule: '@daily', jobTemplate: {{spec: {{{SPEC}}}}}}}"));
    let spec = &cron.to_value()["spec"];
    assert_eq!(spec["jobTemplate"]["spec"]["backoffLimit"], Value::Null, "the Job itself gets it");
    assert_eq!(spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    assert_eq!(
        (&spec["concurrencyPolicy"], &spec["successfulJobsHistoryLimit"], &spec["failedJobsHistoryLimit"]),
        (&json!("Allow"), &json!(3), &json!(1))
    );
}

#[test]
fn pod_failure_policies_have_rules_job_1() {
    check_jobs(
        r#"
podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {containerName: c, operator: In, values: [42]}}]}
podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}
podFailurePolicy: {rules: [{action: FailJob}]}
  ! .podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required
podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [1]}, onPodConditions: [{type: A}]}]}
  ! .podFailurePolicy.rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported
podFailurePolicy: {rules: [{action: '', onExitCodes: {operator: '', values: []}}]}
  ! .podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]
  ! .podFailurePolicy.rules[0].onExitCodes.operator: Required value: valid values: ["In" "NotIn"]
  ! .podFailurePolicy.rules[0].onExitCodes.values: Invalid value: []: at least one value is required
podFailurePolicy: {rules: [{action: Explode, onExitCodes: {containerName: z, operator: Like, values: [3, 3, 1]}}]}
  ! .podFailurePolicy.rules[0].action: Unsupported value: "Explode": supported values: "Count", "FailIndex", "FailJob", "Ignore"
  ! .podFailurePolicy.rules[0].onExitCodes.operator: Unsupported value: "Like": supported values: "In", "NotIn"
  ! .podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: "z": must be one of the container or initContainer names in the pod template
  ! .podFailurePolicy.rules[0].onExitCodes.values[1]: Duplicate value: 3
  ! .podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,3,1]: must be ordered
podFailurePolicy: {rules: [{action: Count, onExitCodes: {containerName: i, operator: In, values: [0, 1]}}]}
  ! .podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator
podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [1]}}]}
  ! .podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set
podFailurePolicy: {rules: [{action: Count, onPodConditions: [{type: A, status: Maybe}]}]}
  ! .podFailurePolicy.rules[0].onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"
"#,
    );
    let on_failure = "spec: {podReplacementPolicy: TerminatingOrFailed, podFailurePolicy: {rules: []}, template: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: i}]}}}";
    assert_eq!(
        messages(&validate_create(&job(on_failure))),
        [
            "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
            "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
        ]
    );
}

#[test]
fn success_policies_have_rules_job_1() {
    check_jobs(
        r#"
completionMode: Indexed\ncompletions: 5\nsuccessPolicy: {rules: [{succeededCount: 1, succeededIndexes: '0,2-4'}, {succeededCount: 5}]}
completionMode: Indexed\ncompletions: 5\nsuccessPolicy: {rules: []}
  ! .successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified
completionMode: Indexed\ncompletions: 5\nsuccessPolicy: {rules: [{}]}
  ! .successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified
completionMode: Indexed\ncompletions: 5\nsuccessPolicy: {rules: [{succeededIndexes: invalid-format}]}
  ! .successPolicy.rules[0].succeededIndexes: Invalid value: "invalid-format": error parsing succeededIndexes: cannot convert string to integer for index: "invalid"
completionMode: Indexed\ncompletions: 5\nsuccessPolicy: {rules: [{succeededCount: 6}, {succeededCount: 4, succeededIndexes: 0-2}]}
  ! .successPolicy.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)
  ! .successPolicy.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of indexes in the specified succeededIndexes field)
successPolicy: {rules: []}
  ! .successPolicy: Invalid value: {"rules":[]}: requires indexed completion mode
"#,
    );
}

/// Returns the errors of a Job's change; the old version has this status.
fn job_change(old: &str, status: &str, new: &str) -> Vec<String> {
    let mut before = job(&with(old));
    let status = from_yaml(status).unwrap();
    before.get_mut::<k8s_openapi::api::batch::v1::Job>().unwrap().status =
        serde_json::from_value(status).unwrap();
    messages(&validate_update(&job(&with(new)), &before))
}

#[test]
fn immutable_fields_of_a_job_cannot_be_changed_job_1_api_5() {
    for case in read_cases(
        r#"
parallelism: 2\ncompletions: 2
-> parallelism: 1\ncompletions: 2\nsuspend: true\nbackoffLimit: 1\nactiveDeadlineSeconds: 5\nttlSecondsAfterFinished: 1
completions: 2
-> completions: 3
  ! spec.completions: Invalid value: 3: field is immutable
completionMode: Indexed\ncompletions: 3\nparallelism: 3
-> completionMode: Indexed\ncompletions: 5\nparallelism: 5
completionMode: Indexed\ncompletions: 3\nparallelism: 3
-> completionMode: Indexed\ncompletions: 5\nparallelism: 3
  ! spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism
completions: 2
-> completions: 2\ncompletionMode: Indexed
  ! spec.completionMode: Invalid value: "Indexed": field is immutable
<empty>
-> managedBy: acme.io/foo
  ! spec.managedBy: Invalid value: "acme.io/foo": field is immutable
completionMode: Indexed\ncompletions: 3\nparallelism: 3
-> completionMode: Indexed\ncompletions: 3\nparallelism: 3\nbackoffLimitPerIndex: 2
  ! spec.backoffLimitPerIndex: Invalid value: 2: field is immutable
completionMode: Indexed\ncompletions: 3\nparallelism: 3
-> completionMode: Indexed\ncompletions: 3\nparallelism: 3\nsuccessPolicy: {rules: [{succeededCount: 1}]}
  ! spec.successPolicy: Invalid value: {"rules":[{"succeededCount":1}]}: field is immutable
"#,
    ) {
        assert_eq!(job_change(&case.text, "{}", case.new_text()), case.errors, "{case:?}");
    }
}

#[test]
fn scheduling_directives_of_a_suspended_job_may_be_changed_until_it_starts_job_1_api_5() {
    let spec = |suspend: bool, pod: &str| {
        format!("spec: {{suspend: {suspend}, template: {{spec: {{restartPolicy: Never, {pod}}}}}}}")
    };
    let old = "containers: [{name: c, image: i}]";
    let errors = |suspend: bool, status: &str, pod: &str| {
        let mut before = job(&spec(suspend, old));
        before.get_mut::<k8s_openapi::api::batch::v1::Job>().unwrap().status =
            serde_json::from_value(from_yaml(status).unwrap()).unwrap();
        messages(&validate_update(&job(&spec(suspend, pod)), &before))
    };
    let change = |suspend: bool, status: &str, pod: &str| errors(suspend, status, pod).len();
    let node = "nodeSelector: {a: b}, tolerations: [{operator: Exists}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: z, operator: Exists}]}]}}}, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]";
    let image = "containers: [{name: c, image: other}]";
    let spread = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}, containers: [{name: c, image: i}]";
    assert_eq!(change(true, "{}", node), 0);
    assert_eq!(change(true, "{startTime: '2026-11-21T00:00:00Z'}", node), 1, "it has started");
    assert_eq!(change(false, "{}", node), 1);
    assert_eq!(
        errors(true, "{}", image),
        [
            r#"spec.template: Invalid value: {"spec":{"containers":[{"image":"other","name":"c"}]}}: field is immutable"#
        ],
        "only the changed part is shown, without the page of defaults around it"
    );
    assert_eq!(change(true, "{}", spread), 1);
}

#[test]
fn a_jobs_status_moves_only_forward_job_1() {
    let status_change = |old: &str, new: &str| {
        let with_status = |status: &str| {
            let mut job = job(&with("completionMode: Indexed\ncompletions: 4\nbackoffLimitPerIndex: 1"));
            job.get_mut::<k8s_openapi::api::batch::v1::Job>().unwrap().status =
                serde_json::from_value(from_yaml(status).unwrap()).unwrap();
            job
        };
        let errors = messages(&validate_status_update(&with_status(new), &with_status(old)));
        errors.iter().map(|e| e.strip_prefix("status.").unwrap_or(e).to_string()).collect::<Vec<_>>()
    };
    for case in read_cases(
        r#"
{}
-> {startTime: '2026-11-21T00:00:00Z', completionTime: '2026-11-21T01:00:00Z', conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}]}
{startTime: '2026-11-21T00:00:00Z', completionTime: '2026-11-21T01:00:00Z', conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}]}
-> {startTime: '2026-11-21T00:00:00Z', completionTime: '2026-11-21T01:00:00Z', conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}], ready: 0}
{startTime: '2026-11-21T00:00:00Z', completionTime: '2026-11-21T01:00:00Z', conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}]}
-> {startTime: '2026-11-21T00:00:00Z'}
  ! conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition
  ! conditions: Invalid value: cannot disable the terminal Complete=True condition
{}
-> {startTime: '2026-11-21T00:00:00Z', conditions: [{type: Failed, status: 'True'}]}
  ! conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition
{}
-> {active: 1, terminating: 1, startTime: '2026-11-21T00:00:00Z', completionTime: '2026-11-21T01:00:00Z', conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}], uncountedTerminatedPods: {failed: [a]}}
  ! active: Invalid value: 1: active>0 is invalid for finished job
  ! uncountedTerminatedPods: Invalid value: {"failed":["a"]}: must be empty for finished job
  ! terminating: Invalid value: 1: terminating>0 is invalid for finished job
{failed: 2, succeeded: 2}
-> {failed: 1, succeeded: 1, active: -1}
  ! active: Invalid value: -1: must be greater than or equal to 0
  ! failed: Invalid value: 1: cannot decrease the failed counter
  ! succeeded: Invalid value: 1: cannot decrease the succeeded counter
  ! ready: Invalid value: 0: cannot set more ready pods than active
{}
-> {uncountedTerminatedPods: {succeeded: [a, ''], failed: [a]}}
  ! uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty
  ! uncountedTerminatedPods.failed[0]: Duplicate value: "a"
{}
-> {completedIndexes: '0-5', failedIndexes: '1,0'}
  ! completedIndexes: Invalid value: "0-5": error parsing completedIndexes: too large index: "5"
  ! failedIndexes: Invalid value: "1,0": error parsing failedIndexes: non-increasing order, previous: 1, current: 0
  ! failedIndexes: Invalid value: "1,0": failedIndexes and completedIndexes overlap at index: 0
{startTime: '2026-11-21T00:00:00Z'}
-> {}
  ! startTime: Invalid value: null: field is immutable for unsuspended job once set
{startTime: '2026-11-21T00:00:00Z', conditions: [{type: Suspended, status: 'True'}]}
-> {startTime: '2026-11-21T02:00:00Z'}
"#,
    ) {
        assert_eq!(status_change(&case.text, case.new_text()), case.errors, "{case:?}");
    }
}

#[test]
fn cron_jobs_have_a_schedule_and_a_zone_cj_1() {
    let cron = |rest: &str| format!("spec:\n  jobTemplate: {{spec: {{{SPEC}}}}}\n  {rest}");
    Template::new(Kind::CronJob, &cron("…"), "spec").check(
        r#"
schedule: '*/5 * * * ?'\ntimeZone: Europe/Rome
schedule: '@every 1h30m'
<empty>
  ! .schedule: Required value
schedule: every day
  ! .schedule: Invalid value: "every day": expected exactly 5 fields, found 2: [every day]
schedule: 'TZ=UTC 0 0 * * *'
  ! .schedule: Invalid value: "TZ=UTC 0 0 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead
schedule: 'CRON_TZ=Mars/Olympus 0 0 * * *'
  ! .schedule: Invalid value: "CRON_TZ=Mars/Olympus 0 0 * * *": provided bad location Mars/Olympus: unknown time zone Mars/Olympus
  ! .schedule: Invalid value: "CRON_TZ=Mars/Olympus 0 0 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead
schedule: '* * * * *'\ntimeZone: ''
  ! .timeZone: Invalid value: "": timeZone must be nil or non-empty string
schedule: '* * * * *'\ntimeZone: Local
  ! .timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones
schedule: '* * * * *'\ntimeZone: Europe/InvalidRome
  ! .timeZone: Invalid value: "Europe/InvalidRome": unknown time zone Europe/InvalidRome
schedule: '* * * * *'\ntimeZone: ' Europe/Rome'
  ! .timeZone: Invalid value: " Europe/Rome": unknown time zone  Europe/Rome
schedule: '* * * * *'\ntimeZone: ../etc/passwd
  ! .timeZone: Invalid value: "../etc/passwd": unknown time zone ../etc/passwd
schedule: '@daily'\nconcurrencyPolicy: Maybe\nstartingDeadlineSeconds: -1\nfailedJobsHistoryLimit: -2
  ! .startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
  ! .concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"
  ! .failedJobsHistoryLimit: Invalid value: -2: must be greater than or equal to 0
"#,
    );
    let named = format!("metadata: {{name: …}}\n{}", cron("schedule: '@daily'"));
    let named = Template::new(Kind::CronJob, &named, "metadata.name");
    let (long, too_long) = ("x".repeat(52), "x".repeat(53));
    named.check(&format!(
        "{long}\n{too_long}\n  ! : Invalid value: \"{too_long}\": must be no more than 52 characters"
    ));
    named.check_change(&format!("{too_long}\n-> {too_long}"));
    check(
        Kind::CronJob,
        r#"
spec: {schedule: '@daily', jobTemplate: {spec: {manualSelector: true, selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c, image: i}]}}}}}
  ! spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"
  ! spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated
  ! spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"
"#,
    );
}
