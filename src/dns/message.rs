//! DNS messages: decides about a packet, and encodes responses so that they fit.
//!
//! Pure. No input makes it panic, and only questions are answered: a server that answers responses can be tricked into
//! talking to itself.

use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, Record};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};

use super::answer::{Answer, authority, find_records};
use super::index::Index;

/// UDP payload size that the server accepts and advertises, in bytes.
const PAYLOAD: u16 = 1232;
/// Length of a message header in bytes.
const HEADER: usize = 12;

/// The reaction to a packet.
#[derive(Debug)]
pub enum PacketAction {
    /// No response: the packet was not a question.
    Ignore,
    /// Send this response.
    Reply(Message),
    /// Forward the question to another server.
    Forward {
        /// The question as received.
        request: Message,
    },
    /// The name is an alias for another name: the response contains both.
    Follow {
        /// The response so far, with the CNAME records.
        reply: Message,
        /// The alias' target, to be resolved with the same type.
        target: Name,
    },
}

/// Decides about a packet.
pub fn handle_packet(index: &Index, packet: &[u8]) -> PacketAction {
    let Ok(request) = Message::from_vec(packet) else { return malformed(packet) };
    if request.metadata.message_type != MessageType::Query {
        return PacketAction::Ignore;
    }
    let mut reply = reply_to(&request);
    let refuse = |mut reply: Message, code| {
        reply.metadata.response_code = code;
        PacketAction::Reply(reply)
    };
    if request.metadata.op_code != OpCode::Query {
        return refuse(reply, ResponseCode::NotImp);
    }
    if request.edns.as_ref().is_some_and(|edns| edns.version() > 0) {
        return refuse(reply, ResponseCode::BADVERS);
    }
    let [query] = request.queries.as_slice() else { return refuse(reply, ResponseCode::FormErr) };
    if query.query_class() != DNSClass::IN {
        return refuse(reply, ResponseCode::Refused);
    }
    match find_records(index, query.name(), query.query_type()) {
        Answer::OutsideDomain => return PacketAction::Forward { request },
        Answer::Records { answers, additionals } => {
            reply.answers = answers;
            reply.additionals = additionals;
        }
        Answer::Alias { aliases, target } => {
            reply.answers = aliases;
            return PacketAction::Follow { reply, target };
        }
        Answer::NoData => reply.authorities = authority(index).into_iter().collect(),
        Answer::NxDomain => {
            reply.metadata.response_code = ResponseCode::NXDomain;
            reply.authorities = authority(index).into_iter().collect();
        }
    }
    reply.metadata.authoritative = true;
    PacketAction::Reply(reply)
}

/// Returns an empty format error if the packet has at least the header of a question.
fn malformed(packet: &[u8]) -> PacketAction {
    let is_response = packet.get(2).is_none_or(|flags| flags & 0x80 != 0);
    if packet.len() < HEADER || is_response {
        return PacketAction::Ignore;
    }
    let id = u16::from_be_bytes([packet[0], packet[1]]);
    PacketAction::Reply(Message::error_msg(id, OpCode::Query, ResponseCode::FormErr))
}

/// Returns an empty response to a question.
pub(crate) fn reply_to(request: &Message) -> Message {
    let mut reply = Message::response(request.metadata.id, request.metadata.op_code);
    reply.metadata = Metadata::response_from_request(&request.metadata);
    reply.metadata.recursion_available = true;
    reply.queries.clone_from(&request.queries);
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(PAYLOAD);
        reply.edns = Some(edns);
    }
    reply
}

/// Returns a SERVFAIL response.
pub(crate) fn failure(request: &Message) -> Message {
    let mut reply = reply_to(request);
    reply.metadata.response_code = ResponseCode::ServFail;
    reply
}

/// Builds a question of the same type for another name.
pub(crate) fn question(name: Name, like: &Query) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.queries = vec![Query::query(name, like.query_type())];
    message
}

/// Returns the largest UDP response that a client accepts, in bytes.
pub(crate) fn udp_limit(request: &Message) -> usize {
    usize::from(request.max_payload().clamp(512, 4096))
}

/// Encodes a response as a packet of at most `limit` bytes. Records that do not fit are left out and the truncation
/// flag is set.
pub fn encode(message: &Message, limit: usize) -> Option<Vec<u8>> {
    let full = emit(message)?;
    if full.len() <= limit {
        return Some(full);
    }
    // Additional records are dropped first, without the truncation flag: the answer is complete without them.
    let mut shorter = message.clone();
    shorter.additionals.clear();
    loop {
        let packet = emit(&shorter)?;
        if packet.len() <= limit {
            return Some(packet);
        }
        shorter.metadata.truncation = true;
        let count = shorter.answers.len();
        if count == 0 {
            return (!shorter.authorities.is_empty()).then(|| emit(&shorter.truncate())).flatten();
        }
        shorter.answers.truncate((count * limit / packet.len()).min(count - 1));
    }
}

/// Encodes a message, limited only by the protocol's maximum size.
fn emit(message: &Message) -> Option<Vec<u8>> {
    let mut buffer = Vec::with_capacity(512);
    let mut encoder = BinEncoder::new(&mut buffer);
    encoder.set_max_size(u16::MAX);
    message.emit(&mut encoder).ok()?;
    Some(buffer)
}

/// Rotates the addresses of an endpoint set, so that clients which use the first one share the load. Records of other
/// types stay in their order.
pub(crate) fn rotate(records: &mut [Record], by: usize) {
    if records.len() > 1 && records.iter().all(|record| record.record_type().is_ip_addr()) {
        records.rotate_left(by % records.len());
    }
}
