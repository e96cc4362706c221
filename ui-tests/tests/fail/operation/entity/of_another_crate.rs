use linchpin::prelude::*;

use ui_tests::Note;

#[operation(kind = "lookup", fields(title = param(title)), returns = "many")]
pub const BY_TITLE: Operation<Note>;

fn main() {}
