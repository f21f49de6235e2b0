//! Byte streams without their type: generic code for connections, such as that of HTTP, is long, and each type of stream
//! would compile it again.

use tokio::io::{AsyncRead, AsyncWrite};

/// A bidirectional byte stream whose directions close independently.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}
