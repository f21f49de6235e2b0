//! SPDY/3.1, as Kubernetes' clients speak it for exec, attach and port-forward.
//!
//! ```text
//!  socket ⇄ driver ⇄ connection (streams, windows) ⇄ frame (bytes) + headers (zlib, dictionary)
//! ```
//!
//! `frame`, `headers` and `connection` do no I/O; [`serve`] puts them on a socket.
//!
//! Architecture Invariant: nothing here depends on the content that Kubernetes sends through the streams.

#[cfg(test)]
pub(super) mod client;
mod connection;
mod dictionary;
mod driver;
mod frame;
mod headers;

pub(super) use driver::{IncomingStream, Reader, StreamClosed, Streams, Writer, serve};
pub(super) use headers::Headers;
