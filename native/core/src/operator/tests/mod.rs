//! Tests of what the operators share.

mod chunks;
mod combined;
mod groups;
