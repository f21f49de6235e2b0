//! Bodies as kubectl encodes them, and malformed ones (API-2, SEC-2).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Writes messages by hand: (field number, content).
enum TestField<'a> {
    Text(u32, &'a str),
    Raw(u32, &'a [u8]),
    Number(u32, i64),
    Message(u32, Vec<u8>),
}
use TestField::{Message, Number, Raw, Text};

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn message(parts: &[TestField<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        let (number, bytes) = match part {
            Number(number, value) => {
                varint(&mut out, u64::from(*number) << 3);
                varint(&mut out, *value as u64);
                continue;
            }
            Text(number, text) => (number, text.as_bytes()),
            Raw(number, bytes) => (number, *bytes),
            Message(number, bytes) => (number, bytes.as_slice()),
        };
        varint(&mut out, u64::from(*number) << 3 | 2);
        varint(&mut out, bytes.len() as u64);
        out.extend(bytes);
    }
    out
}

fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let type_meta = message(&[Text(1, api_version), Text(2, kind)]);
    out.extend(message(&[Message(1, type_meta), Raw(2, object), Text(3, ""), Text(4, "")]));
    out
}

#[test]
fn a_deployment_reads_like_its_json_api_2() {
    let probe = message(&[
        Message(
            1,
            message(&[Message(
                2,
                message(&[Text(1, "/"), Message(2, message(&[Number(1, 1), Number(2, 0), Text(3, "http")]))]),
            )]),
        ),
        Number(2, 0),
        Number(4, 10),
    ]);
    let container = message(&[
        Text(1, "web"),
        Text(2, "nginx"),
        Text(5, ""),
        Message(6, message(&[Text(1, "http"), Number(2, 0), Number(3, 80)])),
        Message(
            8,
            message(&[Message(1, message(&[Text(1, "cpu"), Message(2, message(&[Text(1, "500m")]))]))]),
        ),
        Message(10, probe),
        Number(16, 0),
    ]);
    let volume = message(&[Text(1, "v"), Message(2, message(&[Message(2, vec![])]))]);
    let pod_spec = message(&[
        Message(1, volume),
        Message(2, container),
        Text(3, ""),
        Number(4, 0),
        Message(7, message(&[Text(1, "disk"), Text(2, "ssd")])),
        Number(11, 0),
    ]);
    let template = message(&[
        Message(
            1,
            message(&[
                Text(1, ""),
                Message(8, vec![]),
                Message(11, message(&[Text(1, "app"), Text(2, "web")])),
            ]),
        ),
        Message(2, pod_spec),
    ]);
    let strategy =
        message(&[Text(1, ""), Message(2, message(&[Message(2, message(&[Number(1, 0), Number(2, 0)]))]))]);
    let selector = message(&[Message(1, message(&[Text(1, "app"), Text(2, "web")]))]);
    let object = message(&[
        Message(
            1,
            message(&[
                Text(1, "web"),
                Text(3, "default"),
                Message(8, message(&[Number(1, 1_767_225_600)])),
                Number(7, 0),
            ]),
        ),
        Message(
            2,
            message(&[
                Number(1, 0),
                Message(2, selector),
                Message(3, template),
                Message(4, strategy),
                Number(5, 0),
            ]),
        ),
        Message(3, message(&[Number(1, 0), Number(2, 0)])),
    ]);
    let expect = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": 0}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [{"name": "web", "image": "nginx",
                        "ports": [{"name": "http", "containerPort": 80}],
                        "resources": {"limits": {"cpu": "500m"}},
                        "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 10}}],
                    "terminationGracePeriodSeconds": 0,
                    "nodeSelector": {"disk": "ssd"},
                },
            },
        },
        "status": {},
    });
    assert_eq!(decode(&body("apps/v1", "Deployment", &object)), Ok(expect));
}

#[test]
fn the_other_bodies_kubectl_sends_api_2() {
    let meta = |name: &str| Message(1, message(&[Text(1, name)]));
    let secret =
        message(&[meta("s"), Message(2, message(&[Text(1, "key"), Raw(2, &[0, 255])])), Text(3, "Opaque")]);
    let service = message(&[
        meta("s"),
        Message(
            2,
            message(&[
                Message(
                    1,
                    message(&[
                        Text(1, "http"),
                        Text(2, "TCP"),
                        Number(3, 80),
                        Message(4, message(&[Number(1, 0), Number(2, 0), Text(3, "")])),
                        Number(5, 0),
                    ]),
                ),
                Text(3, "None"),
            ]),
        ),
    ]);
    let budget = message(&[
        meta("b"),
        Message(2, message(&[Message(1, message(&[Number(1, 1), Number(2, 0), Text(3, "50%")]))])),
    ]);
    let review = message(&[Message(
        2,
        message(&[Message(1, message(&[Text(1, "default"), Text(2, "create"), Text(5, "pods")]))]),
    )]);
    let options = message(&[Number(1, 0), Text(4, "Background"), Text(5, "All")]);
    let eviction = message(&[meta("p"), Message(2, message(&[Number(1, -1)]))]);
    let user = message(&[
        meta(""),
        Message(
            2,
            message(&[Message(
                1,
                message(&[
                    Text(1, "me"),
                    Message(4, message(&[Text(1, "k"), Message(2, message(&[Text(1, "a"), Text(1, "b")]))])),
                ]),
            )]),
        ),
    ]);
    let cases = [
        (
            "v1",
            "Secret",
            secret,
            json!({"metadata": {"name": "s"}, "data": {"key": "AP8="}, "type": "Opaque"}),
        ),
        (
            "v1",
            "Service",
            service,
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "http", "protocol": "TCP", "port": 80}], "clusterIP": "None"}}),
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            budget,
            json!({"metadata": {"name": "b"}, "spec": {"minAvailable": "50%"}}),
        ),
        (
            "authorization.k8s.io/v1",
            "SelfSubjectAccessReview",
            review,
            json!({"spec": {"resourceAttributes": {"namespace": "default", "verb": "create", "resource": "pods"}}}),
        ),
        (
            "policy/v1",
            "DeleteOptions",
            options,
            json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background", "dryRun": ["All"]}),
        ),
        (
            "policy/v1",
            "Eviction",
            eviction,
            json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": -1}}),
        ),
        (
            "authentication.k8s.io/v1",
            "SelfSubjectReview",
            user,
            json!({"metadata": {}, "status": {"userInfo": {"username": "me", "extra": {"k": ["a", "b"]}}}}),
        ),
    ];
    for (api_version, kind, object, mut expect) in cases {
        expect["apiVersion"] = api_version.into();
        expect["kind"] = kind.into();
        assert_eq!(decode(&body(api_version, kind, &object)), Ok(expect), "{kind}");
    }
}

#[test]
fn invalid_protobuf_is_rejected_sec_2() {
    assert_eq!(decode(b"{}"), Err(ProtobufError::NotProtobuf));
    assert_eq!(decode(b"k8s\0\x0a\x7f"), Err(ProtobufError::Truncated));
    let unknown = decode(&body("stable.example.com/v1", "CronTab", b"")).expect_err("no such kind");
    assert_eq!(unknown.to_string(), r#"no kind "CronTab" is registered for version "stable.example.com/v1""#);
    let wrong = decode(&body("v1", "Pod", &message(&[Number(1, 1)]))).expect_err("metadata is a message");
    assert_eq!(wrong, ProtobufError::WrongWire { field: "metadata".into(), wire: 0 });
    let text = decode(&body("v1", "Pod", &message(&[Message(1, message(&[Raw(1, &[0xff])]))])));
    assert_eq!(text, Err(ProtobufError::InvalidContent("name".into())));
}

#[test]
fn every_field_of_the_table_has_a_shape_api_2() {
    let mut numbered = 0;
    for ty in graph().types() {
        for entry in fields(ty.name).into_iter().flatten() {
            if let (_, fields::Entry::Field { name, .. }) = entry {
                numbered += 1;
                assert!(ty.field(name).is_some(), "{}.{name}", ty.name);
            }
        }
    }
    assert!(numbered > 1000, "{numbered}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_bytes_panic_sec_2(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0usize..4) {
        let (api_version, kind) = [("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "Event"), ("v1", "Service")][kind];
        let _ = decode(&bytes);
        let _ = decode(&body(api_version, kind, &bytes));
    }

    #[test]
    fn no_structure_panics_sec_2(numbers in prop::collection::vec((1u32..40, any::<bool>()), 0..60)) {
        let nested = numbers.iter().fold(vec![], |inner, (number, text)| {
            message(&[if *text { Raw(*number, &inner) } else { Number(*number, -1) }, Raw(*number, &inner)])[..].to_vec()
                .into_iter().take(4096).collect()
        });
        let _: Result<Value, _> = decode(&body("v1", "Pod", &nested));
    }
}
