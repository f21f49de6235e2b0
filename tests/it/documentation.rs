//! The workloads of Kubernetes' concept pages, with the same images, commands and fields: they behave as the pages say.

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs, on_path};

fn get(instance: &Instance, words: &[&str], path: &str) -> String {
    instance.kubectl(&[&["get"], words, &["-o", &format!("jsonpath={{{path}}}")]].concat())
}

/// The page that a pod serves at its root.
fn page(instance: &Instance, pod: &str, port: u16) -> String {
    let path = format!("/api/v1/namespaces/default/pods/{pod}:{port}/proxy/");
    wait_for(&format!("the page of {pod}"), || {
        let output = instance.kubectl_output(&["get", "--raw", &path]);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    })
}

/// IMG-2: a ReplicaSet of gb-frontend takes over two pods of hello-app; the fluentd DaemonSet is on every node; the
/// StatefulSet of nginx-slim comes up in order, each pod with its own pages.
#[test]
fn the_documentations_servers_run_unmodified_img_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "2"]);
    let hello = r#"
apiVersion: v1
kind: Pod
metadata: {name: pod1, labels: {tier: frontend}}
spec: {containers: [{name: hello1, image: "gcr.io/google-samples/hello-app:2.0"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pod2, labels: {tier: frontend}}
spec: {containers: [{name: hello2, image: "gcr.io/google-samples/hello-app:1.0"}]}
"#;
    instance.apply(hello);
    for (pod, version) in [("pod1", "2.0.0"), ("pod2", "1.0.0")] {
        instance.until_ready(pod);
        let greeting = format!("Hello, world!\nVersion: {version}\nHostname: {pod}\n");
        assert_eq!(page(&instance, pod, 8080), greeting);
    }
    let servers = r#"
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: frontend, labels: {app.kubernetes.io/name: guestbook, tier: frontend}}
spec:
  replicas: 3
  selector: {matchLabels: {tier: frontend}}
  template:
    metadata: {labels: {tier: frontend}}
    spec: {containers: [{name: php-redis, image: "us-docker.pkg.dev/google-samples/containers/gke/gb-frontend:v5"}]}
---
apiVersion: v1
kind: Service
metadata: {name: nginx, labels: {app: nginx}}
spec: {ports: [{port: 80, name: web}], clusterIP: None, selector: {app: nginx}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: nginx}}
  serviceName: nginx
  replicas: 3
  minReadySeconds: 1
  template:
    metadata: {labels: {app: nginx}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: nginx
        image: registry.k8s.io/nginx-slim:0.24
        ports: [{containerPort: 80, name: web}]
        volumeMounts: [{name: www, mountPath: /usr/share/nginx/html}]
  volumeClaimTemplates:
  - metadata: {name: www}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: fluentd-elasticsearch, namespace: kube-system, labels: {k8s-app: fluentd-logging}}
spec:
  selector: {matchLabels: {name: fluentd-elasticsearch}}
  template:
    metadata: {labels: {name: fluentd-elasticsearch}}
    spec:
      tolerations:
      - {key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}
      containers:
      - name: fluentd-elasticsearch
        image: quay.io/fluentd_elasticsearch/fluentd:v5.0.1
        resources: {limits: {memory: 200Mi}, requests: {cpu: 100m, memory: 200Mi}}
        volumeMounts:
        - {name: varlog, mountPath: /var/log}
        - {name: varlibdockercontainers, mountPath: /var/lib/docker/containers, readOnly: true}
      terminationGracePeriodSeconds: 30
      volumes:
      - {name: varlog, hostPath: {path: /var/log}}
      - {name: varlibdockercontainers, hostPath: {path: CONTAINERS}}
"#;
    // On most machines the directory of the example is missing, as this one is.
    let containers = home.path("docker/containers").display().to_string();
    instance.apply(&servers.replace("CONTAINERS", &containers));
    let ready = |what: &[&str], path: &str, count: &str| {
        wait_for(&format!("{count} of {what:?}"), || (get(&instance, what, path) == count).then_some(()));
    };
    ready(&["rs", "frontend"], ".status.readyReplicas", "3");
    ready(&["ds", "-n", "kube-system", "fluentd-elasticsearch"], ".status.numberReady", "2");
    ready(&["sts", "web"], ".status.availableReplicas", "3");
    let owners = |pod: &str| get(&instance, &["pod", pod], ".metadata.ownerReferences[0].name");
    assert_eq!((owners("pod1").as_str(), owners("pod2").as_str()), ("frontend", "frontend"));
    let pods = get(&instance, &["pods", "-l", "tier=frontend"], ".items[*].metadata.name");
    let third = pods.split(' ').find(|name| name.starts_with("frontend-")).unwrap().to_owned();
    assert_eq!(pods.split(' ').count(), 3, "{pods}");
    let guestbook = page(&instance, &third, 80);
    assert!(guestbook.contains("<h2>Guestbook</h2>"), "{guestbook}");
    for pod in ["web-0", "web-2"] {
        let write = "echo $(hostname) > /usr/share/nginx/html/index.html";
        instance.kubectl(&["exec", pod, "--", "sh", "-c", write]);
        assert_eq!(page(&instance, pod, 80), format!("{pod}\n"));
    }
    let starts = get(&instance, &["pods", "-l", "app=nginx"], ".items[*].status.startTime");
    let starts: Vec<&str> = starts.split(' ').collect();
    assert!(starts.is_sorted(), "{starts:?}");
    instance.kubectl(&["delete", "statefulset/web", "rs/frontend", "--timeout=60s"]);
    instance.stop();
}

/// IMG-2: the liveness server of the documentation fails after ten seconds, and its container is restarted, under each
/// name that the image has had.
#[test]
fn the_documentations_liveness_servers_are_restarted_img_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let images = [
        ("first", "k8s.gcr.io/liveness", "/server"),
        ("moved", "registry.k8s.io/liveness", "/server"),
        ("agnhost", "registry.k8s.io/e2e-test-images/agnhost:2.40", "liveness"),
    ];
    for (name, image, argument) in images {
        let manifest = format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{test: liveness}}}}
spec:
  containers:
  - name: liveness
    image: "{image}"
    args: [{argument}]
    livenessProbe:
      httpGet: {{path: /healthz, port: 8080, httpHeaders: [{{name: Custom-Header, value: Awesome}}]}}
      initialDelaySeconds: 3
      periodSeconds: 3
"#
        );
        instance.apply(&manifest);
    }
    for (name, ..) in images {
        wait_for("the restart", || {
            let restarts = instance.field(name, ".status.containerStatuses[0].restartCount");
            // The server of another name may have been restarted twice by now.
            restarts.parse::<u32>().is_ok_and(|count| count > 0).then_some(())
        });
        let about = ["events", "--field-selector", &format!("involvedObject.name={name},reason=Unhealthy")];
        let message = get(&instance, &about, ".items[0].message");
        assert!(
            message.starts_with("Liveness probe failed: HTTP probe failed with statuscode: 500"),
            "{message}"
        );
    }
    instance.kubectl(&["delete", "pods", "--all", "--force", "--grace-period=0"]);
    instance.stop();
}

/// IMG-2: the Jobs of the documentation end as the pages say: pi is computed, a rule ends a Job that has a bug at once,
/// a Job completes with the success of one index, and odd indexes succeed while even ones fail.
#[test]
fn the_documentations_jobs_end_as_it_says_img_2() {
    needs!(Kubectl);
    if lacks(Need::Programs, on_path("perl") && on_path("python3")) {
        return;
    }
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "2"]);
    let jobs = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: pi}
spec:
  backoffLimit: 4
  template:
    spec:
      restartPolicy: Never
      containers: [{name: pi, image: "perl:5.34.0", command: [perl, "-Mbignum=bpi", "-wle", "print bpi(2000)"]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: failure-policy}
spec:
  completions: 12
  parallelism: 3
  backoffLimit: 6
  podFailurePolicy:
    rules:
    - {action: FailJob, onExitCodes: {containerName: main, operator: In, values: [42]}}
    - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "docker.io/library/bash:5", command: [bash], args: [-c, "echo failing && sleep 1 && exit 42"]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: success-policy}
spec:
  parallelism: 10
  completions: 10
  completionMode: Indexed
  # Nine indexes fail, and which ones end first is chance.
  backoffLimit: 10
  successPolicy: {rules: [{succeededIndexes: "0,2-3", succeededCount: 1}]}
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: python
        command: [python3, -c, "import os, sys; sys.exit(os.environ['JOB_COMPLETION_INDEX'] != '2')"]
---
apiVersion: batch/v1
kind: Job
metadata: {name: per-index}
spec:
  completions: 4
  parallelism: 3
  completionMode: Indexed
  backoffLimitPerIndex: 0
  maxFailedIndexes: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: example
        image: python
        command: [python3, -c, "import os, sys; sys.exit(int(os.environ['JOB_COMPLETION_INDEX']) % 2 == 0)"]
---
apiVersion: batch/v1
kind: Job
metadata: {name: sidecar}
spec:
  template:
    spec:
      restartPolicy: Never
      initContainers:
      - name: logshipper
        image: alpine:latest
        restartPolicy: Always
        command: [sh, -c, "tail -F /opt/logs.txt"]
        volumeMounts: [{name: data, mountPath: /opt}]
      containers:
      - name: myjob
        image: alpine:latest
        command: [sh, -c, 'echo "logging" > /opt/logs.txt']
        volumeMounts: [{name: data, mountPath: /opt}]
      volumes: [{name: data, emptyDir: {}}]
"#;
    instance.apply(jobs);
    let condition = |job: &str, kind: &str| {
        wait_for(&format!("{job} {kind}"), || {
            let path = format!(".status.conditions[?(@.type==\"{kind}\")].reason");
            Some(get(&instance, &["job", job], &path)).filter(|reason| !reason.is_empty())
        })
    };
    assert_eq!(condition("failure-policy", "Failed"), "PodFailurePolicy");
    assert_eq!(condition("success-policy", "Complete"), "SuccessPolicy");
    condition("per-index", "Failed");
    assert_eq!(get(&instance, &["job", "per-index"], ".status.completedIndexes"), "1,3");
    assert_eq!(get(&instance, &["job", "per-index"], ".status.failedIndexes"), "0,2");
    condition("sidecar", "Complete");
    condition("pi", "Complete");
    let digits = instance.kubectl(&["logs", "job/pi"]);
    assert!(
        digits.starts_with("3.14159265358979323846") && digits.ends_with("58133904780275901\n"),
        "{digits}"
    );
    assert_eq!(digits.len(), 2002, "2000 digits");
    instance.stop();
}
