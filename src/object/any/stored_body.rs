//! The content of an object, whose code to clone and to drop all kinds is compiled once: the compiler would put it into
//! each crate that clones or drops an object, where it was a tenth of the code.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::Body;

/// A body that is cloned and dropped out of line.
pub(super) struct StoredBody(ManuallyDrop<Body>);

impl StoredBody {
    pub(super) fn new(body: Body) -> Self {
        Self(ManuallyDrop::new(body))
    }
}

impl Clone for StoredBody {
    #[inline(never)]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Drop for StoredBody {
    #[inline(never)]
    #[expect(
        unsafe_code,
        reason = "no other way keeps the code that drops a field out of the crates that drop objects"
    )]
    fn drop(&mut self) {
        // SAFETY: the value is dropped only here, and nothing reads it afterwards.
        unsafe { ManuallyDrop::drop(&mut self.0) }
    }
}

impl Deref for StoredBody {
    type Target = Body;

    fn deref(&self) -> &Body {
        &self.0
    }
}

impl DerefMut for StoredBody {
    fn deref_mut(&mut self) -> &mut Body {
        &mut self.0
    }
}
