//! `cargo xtask conformance`: a given number of random call sequences, on one store and on the
//! memory model.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{cargo, step};

/// The name of a store's test, and whether it needs the feature of that name.
const STORES: [(&str, bool); 3] = [("memory", false), ("sqlite", false), ("postgres", true)];

pub fn run(args: &[String]) -> Result<(), String> {
    let asked = Asked::read(args)?;
    let mut command = cargo(&["test", "--package", "linchpin", "--test", "conformance"]);
    if asked.feature {
        command.args(["--features", asked.store]);
    }
    command.args(["--", "--exact", asked.store, "--nocapture"]);
    command
        .env(
            "LINCHPIN_CONFORMANCE_SEQUENCES",
            asked.sequences.to_string(),
        )
        .env("LINCHPIN_CONFORMANCE_SEED", asked.seed.to_string());
    println!(
        "xtask: {} sequences on {} from seed {}",
        asked.sequences, asked.store, asked.seed
    );
    step("conformance", command)
}

#[derive(Debug, PartialEq)]
struct Asked {
    store: &'static str,
    feature: bool,
    sequences: u64,
    seed: u64,
}

impl Asked {
    fn read(args: &[String]) -> Result<Self, String> {
        // A new seed each time, unless a sequence must be repeated.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        let mut asked = Self {
            store: "sqlite",
            feature: false,
            sequences: 2000,
            seed: now,
        };
        let mut rest = args.iter().skip(1);
        while let Some(name) = rest.next() {
            let value = rest
                .next()
                .ok_or_else(|| format!("`{name}` needs a value"))?;
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|_| format!("`{name}` needs a number, not `{value}`"))
            };
            match name.as_str() {
                "--sequences" => asked.sequences = number()?,
                "--seed" => asked.seed = number()?,
                "--store" => {
                    let known = STORES.iter().find(|(store, _)| store == value);
                    let Some((store, feature)) = known else {
                        return Err(format!(
                            "no store `{value}`; known: memory, sqlite, postgres"
                        ));
                    };
                    (asked.store, asked.feature) = (store, *feature);
                }
                _ => {
                    return Err(format!(
                        "unknown option `{name}`; known: --sequences, --store, --seed"
                    ));
                }
            }
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Asked, String> {
        let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Asked::read(&args)
    }

    #[test]
    fn options() {
        let asked = read("conformance --store postgres --sequences 300 --seed 9");
        assert_eq!(
            asked,
            Ok(Asked {
                store: "postgres",
                feature: true,
                sequences: 300,
                seed: 9
            })
        );
        for wrong in [
            "conformance --store oracle",
            "conformance --sequences many",
            "conformance --seed",
            "conformance --sequence 1",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
