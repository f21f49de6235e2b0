//! A channel as a stream.

use futures::Stream;
use tokio::sync::mpsc;

/// Returns the end of a channel as a stream.
pub(super) fn receiver_stream<T>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}
