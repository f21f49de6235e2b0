//! The reconcile layer.
