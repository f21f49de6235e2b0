//! A body whose bytes are transformed as they pass: compressed, rewritten.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body as AnyBody;
use bytes::Bytes;
use hyper::body::{Body, Frame};

/// Transforms the bytes.
pub(super) trait Transform: Unpin {
    /// Takes input.
    fn write(&mut self, data: &[u8]) -> Result<(), axum::Error>;

    /// Returns the output since the last call.
    fn take_output(&mut self) -> Vec<u8>;

    /// Ends the input and returns the remaining output.
    fn end(self) -> Result<Vec<u8>, axum::Error>;
}

/// A body that is transformed as it is read.
pub(super) struct TransformedBody<T> {
    inner: AnyBody,
    /// `None` once the end was delivered.
    transform: Option<T>,
}

impl<T> TransformedBody<T> {
    pub(super) fn new(inner: AnyBody, transform: T) -> Self {
        Self { inner, transform: Some(transform) }
    }
}

impl<T: Transform> Body for TransformedBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            let Some(transform) = &mut this.transform else { return Poll::Ready(None) };
            let data = match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    // Trailers describe the bytes before the transformation.
                    Err(_) => continue,
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let rest = this.transform.take().map(T::end).transpose()?.unwrap_or_default();
                    return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                }
            };
            if let Err(error) = transform.write(&data) {
                this.transform = None;
                return Poll::Ready(Some(Err(error)));
            }
            let made = transform.take_output();
            if !made.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(made.into()))));
            }
        }
    }
}
