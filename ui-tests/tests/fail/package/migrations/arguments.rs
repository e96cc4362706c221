use linchpin::prelude::*;

fn year(old: String) -> Result<i64, TransformError> {
    old.parse().map_err(|_| "not a year".into())
}

fn main() {
    linchpin::migrations!(migrations);
    linchpin::migrations!("/migrations");
    linchpin::migrations!("migrations", transform = [year]);
    linchpin::migrations!("migrations", transforms = year);
    linchpin::migrations!("migrations", transforms = [year]);
}
