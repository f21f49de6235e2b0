//! The seat of the request that is answered just now (`flow_control`), and giving it back before the answer: whoever waits
//! for other people's servers waits in turn (`turns`) and needs none. A server that is asked and asks back, as most
//! webhooks do, would else find all seats of its level taken by those who wait for it.

use std::cell::RefCell;
use std::sync::Arc;

use crate::flow_control::Seat;
use crate::identity::User;

tokio::task_local! {
    static SEATED: Seated;
}

struct Seated {
    user: Arc<User>,
    seat: RefCell<Option<Seat>>,
}

/// Answers a request of this user, who has this seat until the answer is begun.
pub(super) async fn seated<T>(user: Arc<User>, seat: Option<Seat>, answer: impl Future<Output = T>) -> T {
    SEATED.scope(Seated { user, seat: RefCell::new(seat) }, answer).await
}

/// Gives the seat back; who had it.
pub(super) fn leave() -> Option<Arc<User>> {
    let leave = |seated: &Seated| {
        drop(seated.seat.take());
        seated.user.clone()
    };
    SEATED.try_with(leave).ok()
}
