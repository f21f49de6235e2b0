//! DNS messages: a response fits, can be parsed and belongs to its query, and a message that is a response gets none.

use std::sync::LazyLock;

use hickory_proto::op::{Message, MessageType};
use serde_json::json;

use dns::index::Index;
use dns::message::{PacketAction, encode, handle_packet};
use object::{Key, SharedObject};
use services::ServiceEndpoints;

/// Maximum size of a response over UDP without EDNS.
const SMALLEST: usize = 512;

/// A cluster with a service, a headless service and an alias.
static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index::new("cluster.local", [127, 32, 0, 10].into());
    index.set_namespace("default", true);
    let endpoints: Vec<_> = (1..40)
        .map(|host| json!({"addresses": [format!("127.64.0.{host}")], "hostname": format!("web-{host}")}))
        .collect();
    for (name, spec) in [
        ("web", json!({"clusterIP": "127.32.0.20", "ports": [{"name": "http", "port": 80}]})),
        ("set", json!({"clusterIP": "None", "ports": [{"name": "http", "port": 80}]})),
        ("far", json!({"type": "ExternalName", "externalName": "example.org"})),
    ] {
        let meta = json!({"name": name, "namespace": "default"});
        let service = serde_json::from_value(json!({"metadata": meta, "spec": spec}));
        let slice = serde_json::from_value(json!({"metadata": meta, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 80}], "endpoints": endpoints}));
        let slice = SharedObject::from_value(slice.expect("it is an EndpointSlice"));
        let joined = ServiceEndpoints {
            service: Some(SharedObject::from_value(service.expect("it is a Service"))),
            slices: [(Key::new("default", name), slice)].into(),
        };
        index.update(&Key::new("default", name), &joined);
    }
    index
});

pub(super) fn check(bytes: &[u8]) {
    let is_answer = bytes.get(2).is_none_or(|flags| flags & 0x80 != 0);
    let reply = match handle_packet(&INDEX, bytes) {
        PacketAction::Ignore => return,
        PacketAction::Forward { request } => {
            assert_eq!(request.metadata.message_type, MessageType::Query);
            assert_eq!(request.queries.len(), 1);
            return;
        }
        PacketAction::Reply(reply) | PacketAction::Follow { reply, .. } => reply,
    };
    assert!(!is_answer, "the server replied to a response");
    assert_eq!(reply.metadata.id.to_be_bytes(), bytes[..2]);
    for limit in [SMALLEST, usize::from(u16::MAX)] {
        if let Some(packet) = encode(&reply, limit) {
            assert!(packet.len() <= limit);
            let read = Message::from_vec(&packet).expect("the reply can be decoded");
            assert_eq!(read.metadata.message_type, MessageType::Response);
            assert_eq!(read.metadata.id, reply.metadata.id);
        }
    }
}
