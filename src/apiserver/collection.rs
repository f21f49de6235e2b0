//! Responses with a collection, encoded chunk by chunk as the client reads: many clients may request large
//! collections at once and read slowly, and each holds only references to objects.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body as AnyBody;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;

use super::chunks::ChunkBuilder;
use super::encoding::EstimatedSize;
use super::list::{self, Page};
use super::negotiate::{MediaType, Representation};
use super::protobuf::{self, ListFrame};
use super::respond::Responder;
use super::response_format::ResponseFormat;
use super::table::{TAIL, Table, TableMeta};
use super::{Server, representation};
use api::ApiError;
use object::{Object, ServedKind};

/// The approximate size of a table row with its object's metadata.
const ROW_BYTES: u64 = 512;

/// Bytes that are encoded before the length computation yields to other tasks.
const COUNTED_AT_ONCE: usize = 1 << 20;

/// Returns the response with a page of objects, in the requested form.
pub(super) async fn respond(
    server: &Server,
    served: ServedKind,
    page: Page,
    format: &ResponseFormat,
) -> Result<Response, ApiError> {
    if format.accepted().media == MediaType::Protobuf {
        return messages(server, served, page, format.form()).await;
    }
    let count = page.objects.len() as u64;
    let (head, encode, tail): (String, EncodeFn, &'static str) = match format.form() {
        Representation::Object => {
            let (name, version) = (server.api().kinds().list_kind(served.kind()), served.api_version());
            let head = list_head(&name, &version, &list::metadata(&page));
            (head, Box::new(move |object, pieces| pieces.share(served.json(object))), "]}")
        }
        Representation::Table(version) => {
            let metadata = TableMeta {
                resource_version: page.revision.to_string(),
                continue_token: page.next.clone().unwrap_or_default(),
                remaining_item_count: page.remaining,
            };
            let (include, now) = (format.query.include_object(), server.api().server_clock().now());
            let strategy = server.api().kinds().strategy_in(served);
            let head = Table::new(&*strategy, served, version, include, now).head(&metadata);
            let row = move |object: &Arc<Object>, pieces: &mut ChunkBuilder| {
                pieces.share(Table::new(&*strategy, served, version, include, now).row(object).into());
            };
            (head, Box::new(row), TAIL)
        }
        Representation::Metadata(version) => {
            let head = list_head("PartialObjectMetadataList", version.api_version(), &list::metadata(&page));
            let item = move |object: &Arc<Object>, pieces: &mut ChunkBuilder| {
                pieces.share(representation::partial(version, object).to_string().into());
            };
            (head, Box::new(item), "]}")
        }
    };
    let exact = match (format.form(), served) {
        // The encodings are cached with the objects.
        (Representation::Object, ServedKind::Stored(_)) => {
            let items = counted(&page.objects, |object| Ok(object.json_length())).await?;
            Some(head.len() as u64 + items as u64 + count.saturating_sub(1) + tail.len() as u64)
        }
        _ => None,
    };
    let mut pieces = ChunkBuilder::default();
    pieces.put(head.as_bytes());
    let body = Collection {
        objects: page.objects.into_iter(),
        encode,
        pieces,
        separator: b",",
        first: true,
        tail: Some(tail.as_bytes()),
        remaining_bytes: exact,
    };
    let mut response =
        Responder::typed(StatusCode::OK, MediaType::Json.content_type(false), AnyBody::new(body));
    response.extensions_mut().insert(EstimatedSize(exact.unwrap_or(count * ROW_BYTES)));
    Ok(response)
}

/// Returns the start of a list, up to its first item.
fn list_head(kind: &str, api_version: &str, metadata: &Value) -> String {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[")
}

/// Returns the response as a protobuf message. The message begins with its length, so every object is encoded
/// twice: to compute the length, and when it is sent.
async fn messages(
    server: &Server,
    served: ServedKind,
    page: Page,
    form: Representation,
) -> Result<Response, ApiError> {
    let (api_version, kind) = match form {
        Representation::Metadata(version) | Representation::Table(version) => {
            (version.api_version().into(), "PartialObjectMetadataList".into())
        }
        Representation::Object => (served.api_version(), server.api().kinds().list_kind(served.kind())),
    };
    let items = counted(&page.objects, |object| {
        let length = representation::message(form, served, object)?.len();
        Ok(protobuf::item_head(length).len() + length)
    })
    .await?;
    let ListFrame { head, tail } = protobuf::list_frame(&api_version, &kind, &list::metadata(&page), items)?;
    let left = (head.len() + items + tail.len()) as u64;
    let encode = move |object: &Arc<Object>, pieces: &mut ChunkBuilder| {
        let message = representation::message(form, served, object)
            .expect("the object was encoded before, to compute the length");
        pieces.put(&protobuf::item_head(message.len()));
        pieces.share(message.into());
    };
    let mut pieces = ChunkBuilder::default();
    pieces.put(&head);
    let body = Collection {
        objects: page.objects.into_iter(),
        encode: Box::new(encode),
        pieces,
        separator: b"",
        first: true,
        tail: Some(tail),
        remaining_bytes: Some(left),
    };
    let content_type = MediaType::Protobuf.content_type(false);
    let mut response = Responder::typed(StatusCode::OK, content_type, AnyBody::new(body));
    response.extensions_mut().insert(EstimatedSize(left));
    Ok(response)
}

/// Returns the total length of the objects' encodings. Yields now and then: a worker that encoded ten
/// thousand objects without a pause would serve no other request meanwhile.
async fn counted(
    objects: &[Arc<Object>],
    length: impl Fn(&Arc<Object>) -> Result<usize, ApiError>,
) -> Result<usize, ApiError> {
    let (mut all, mut at_once) = (0, 0);
    for object in objects {
        let length = length(object)?;
        (all, at_once) = (all + length, at_once + length);
        if at_once >= COUNTED_AT_ONCE {
            tokio::task::yield_now().await;
            at_once = 0;
        }
    }
    Ok(all)
}

type EncodeFn = Box<dyn Fn(&Arc<Object>, &mut ChunkBuilder) + Send + Sync>;

/// A body that is encoded as it is read.
struct Collection {
    objects: std::vec::IntoIter<Arc<Object>>,
    encode: EncodeFn,
    pieces: ChunkBuilder,
    /// The text between two objects.
    separator: &'static [u8],
    first: bool,
    /// The end of the collection; `None` once it was written.
    tail: Option<&'static [u8]>,
    /// The bytes still to come, if known.
    remaining_bytes: Option<u64>,
}

impl Iterator for Collection {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.pieces.full() {
                return Some(piece);
            }
            if let Some(object) = self.objects.next() {
                if !std::mem::take(&mut self.first) {
                    self.pieces.put(self.separator);
                }
                (self.encode)(&object, &mut self.pieces);
            } else {
                if let Some(tail) = self.tail.take() {
                    self.pieces.put(tail);
                }
                return self.pieces.next();
            }
        }
    }
}

impl Body for Collection {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.next();
        if let (Some(left), Some(piece)) = (&mut self.remaining_bytes, &piece) {
            *left -= piece.len() as u64;
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining_bytes.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use serde_json::json;

    use super::*;
    use object::Kind;

    #[tokio::test]
    async fn a_long_collection_is_counted_in_several_goes() {
        let map = |bytes: usize| {
            let map = json!({"metadata": {"name": "m"}, "data": {"a": "x".repeat(bytes)}});
            Arc::new(Object::from_value(Kind::ConfigMap, map).unwrap())
        };
        for (objects, goes) in [(vec![map(1024); 100], 1), (vec![map(COUNTED_AT_ONCE / 2); 7], 4)] {
            let mut counting = pin!(counted(&objects, |object| Ok(object.json_length())));
            let mut polls = 1;
            let all = loop {
                match futures::poll!(counting.as_mut()) {
                    Poll::Ready(all) => break all.unwrap(),
                    Poll::Pending => polls += 1,
                }
            };
            assert_eq!((polls, all), (goes, objects.iter().map(|object| object.json().len()).sum()));
        }
    }
}
