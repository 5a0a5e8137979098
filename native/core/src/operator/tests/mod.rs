//! Tests of what operators share.

mod combined;
mod groups;
