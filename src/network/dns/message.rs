//! DNS messages: a packet in, what to do about it out; and answers as packets that fit.
//!
//! Pure. Whatever comes in, nothing panics and nothing is answered that is no question: a server that answers
//! answers can be made to talk to itself.

use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, Record};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};

use super::answer::{Answer, answer, authority};
use super::index::Index;

/// What we take over UDP, and say so.
const PAYLOAD: u16 = 1232;
/// Bytes of a header.
const HEADER: usize = 12;

/// What to do about a packet.
#[derive(Debug)]
pub enum Reaction {
    /// Nothing: it was no question.
    Silence,
    /// Answer this.
    Reply(Message),
    /// The question is another server's to answer.
    Forward {
        /// As it came.
        request: Message,
    },
    /// The name is one for another name: answer with both.
    Follow {
        /// The answer so far, with the record that says so.
        reply: Message,
        /// The other name, to be asked for with the same type.
        target: Name,
    },
}

/// What to do about a packet.
pub fn react(index: &Index, packet: &[u8]) -> Reaction {
    let Ok(request) = Message::from_vec(packet) else { return malformed(packet) };
    if request.metadata.message_type != MessageType::Query {
        return Reaction::Silence;
    }
    let mut reply = reply_to(&request);
    let refuse = |mut reply: Message, code| {
        reply.metadata.response_code = code;
        Reaction::Reply(reply)
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
    match answer(index, query.name(), query.query_type()) {
        Answer::NotOurs => return Reaction::Forward { request },
        Answer::Records { answers, additionals } => {
            reply.answers = answers;
            reply.additionals = additionals;
        }
        Answer::Alias { aliases, target } => {
            reply.answers = aliases;
            return Reaction::Follow { reply, target };
        }
        Answer::Nothing => reply.authorities = authority(index).into_iter().collect(),
        Answer::NoName => {
            reply.metadata.response_code = ResponseCode::NXDomain;
            reply.authorities = authority(index).into_iter().collect();
        }
    }
    reply.metadata.authoritative = true;
    Reaction::Reply(reply)
}

/// An error without content for what has at least a header of a question.
fn malformed(packet: &[u8]) -> Reaction {
    let is_response = packet.get(2).is_none_or(|flags| flags & 0x80 != 0);
    if packet.len() < HEADER || is_response {
        return Reaction::Silence;
    }
    let id = u16::from_be_bytes([packet[0], packet[1]]);
    Reaction::Reply(Message::error_msg(id, OpCode::Query, ResponseCode::FormErr))
}

/// An empty answer to a question.
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

/// The answer that something went wrong here.
pub(crate) fn failure(request: &Message) -> Message {
    let mut reply = reply_to(request);
    reply.metadata.response_code = ResponseCode::ServFail;
    reply
}

/// A question of our own.
pub(crate) fn question(name: Name, like: &Query) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.queries = vec![Query::query(name, like.query_type())];
    message
}

/// What a client takes over UDP.
pub(crate) fn udp_limit(request: &Message) -> usize {
    usize::from(request.max_payload().clamp(512, 4096))
}

/// An answer as a packet of at most `limit` bytes; what does not fit is left out, and said to be.
pub fn encode(message: &Message, limit: usize) -> Option<Vec<u8>> {
    let full = emit(message)?;
    if full.len() <= limit {
        return Some(full);
    }
    // What only helps goes first; that is no loss worth telling.
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

/// As large as a message can be at all.
fn emit(message: &Message) -> Option<Vec<u8>> {
    let mut buffer = Vec::with_capacity(512);
    let mut encoder = BinEncoder::new(&mut buffer);
    encoder.set_max_size(u16::MAX);
    message.emit(&mut encoder).ok()?;
    Some(buffer)
}

/// Puts an endpoint set's records into another order, so that clients that take the first share the load.
pub(crate) fn rotate(records: &mut [Record], by: usize) {
    if records.len() > 1 {
        let by = by % records.len();
        records.rotate_left(by);
    }
}
