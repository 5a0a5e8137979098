//! Tests of what the operators share.

mod combined;
mod groups;
