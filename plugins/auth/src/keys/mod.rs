//! Keys: those that sign, and those that are derived for everything else.

mod data;
mod derive;
mod signing;
