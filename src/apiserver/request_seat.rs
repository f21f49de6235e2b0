//! The seat of the current request (`flow_control`), and its early release: a request that waits for webhooks
//! waits for a permit (`webhook_queue`) and needs no seat. A webhook that calls the API in turn, as most do,
//! would otherwise find all seats of its level taken by the requests that wait for it.

use std::cell::RefCell;
use std::sync::Arc;

use crate::flow_control::Seat;
use api::identity::User;

tokio::task_local! {
    static SEATED: SeatHolder;
}

struct SeatHolder {
    user: Arc<User>,
    seat: RefCell<Option<Seat>>,
}

/// Handles a request of this user, which holds this seat until the response starts.
pub(super) async fn seated<T>(user: Arc<User>, seat: Option<Seat>, answer: impl Future<Output = T>) -> T {
    SEATED.scope(SeatHolder { user, seat: RefCell::new(seat) }, answer).await
}

/// Releases the seat; returns the user.
pub(super) fn leave() -> Option<Arc<User>> {
    let leave = |seated: &SeatHolder| {
        drop(seated.seat.take());
        seated.user.clone()
    };
    SEATED.try_with(leave).ok()
}
