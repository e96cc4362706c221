//! What compiles and what does not, with the words the compiler uses.
//!
//! `fail/SUBJECT/NN_name.rs` holds one mistake against rule NN of the contract's list of compile-time checks; `pass/` holds
//! the nearly-wrong neighbours. `TRYBUILD=overwrite cargo test -p ui-tests` rewrites the expected messages.
//!
//! Each file declares the entity that its mistake is about, though many declare the same one: a case is read beside the message that it
//! gets, and rustc points into what it includes.
//!
//! They are two tests because cases that fail need no code: alone, all of them are checked by one cargo, as many at a time as
//! there are cores. Beside one case that has to run, each would be built for itself, one after another.

#[test]
fn ui_pass() {
    trybuild::TestCases::new().pass("tests/pass/**/*.rs");
}

#[test]
fn ui_fail() {
    trybuild::TestCases::new().compile_fail("tests/fail/**/*.rs");
}
