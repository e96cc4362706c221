//! A checksum of rows that does not depend on their order.

use std::hash::{DefaultHasher, Hasher};

use rusqlite::Result;
use rusqlite::functions::{Aggregate, Context};
use rusqlite::types::ValueRef;

/// The name of the aggregate. Its arguments are the columns.
pub(super) const NAME: &str = "linchpin_digest";

/// The aggregate: two sums of hashes of the rows. Each sum uses a different hash.
pub(super) struct Digest;

impl Aggregate<[u64; 2], String> for Digest {
    fn init(&self, _: &mut Context<'_>) -> Result<[u64; 2]> {
        Ok([0; 2])
    }

    fn step(&self, cx: &mut Context<'_>, sums: &mut [u64; 2]) -> Result<()> {
        for (seed, sum) in (0..).zip(sums) {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(seed);
            for i in 0..cx.len() {
                write(&mut hasher, cx.get_raw(i));
            }
            *sum = sum.wrapping_add(hasher.finish());
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sums: Option<[u64; 2]>) -> Result<String> {
        let [a, b] = sums.unwrap_or_default();
        Ok(format!("{a:016x}{b:016x}"))
    }
}

fn write(hasher: &mut DefaultHasher, value: ValueRef<'_>) {
    let bytes = |hasher: &mut DefaultHasher, kind, bytes: &[u8]| {
        hasher.write_u8(kind);
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    };
    match value {
        ValueRef::Null => hasher.write_u8(0),
        // A copy of an integer into a column of doubles is a double. The integer and the double
        // must have the same hash if the double is exact.
        ValueRef::Integer(i) => {
            hasher.write_u8(1);
            hasher.write_u64((i as f64).to_bits());
            hasher.write_i64(i);
        }
        ValueRef::Real(f) => {
            hasher.write_u8(1);
            hasher.write_u64((f + 0.0).to_bits());
            hasher.write_i64(f as i64);
        }
        ValueRef::Text(text) => bytes(hasher, 3, text),
        ValueRef::Blob(blob) => bytes(hasher, 4, blob),
    }
}
