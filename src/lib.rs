//! Triptych: a function cluster, a dataset service, an inference network, and one screen.
